#include "core/lab/bench_ops.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "registry/error.h"

using namespace moelab;

TEST_CASE("bench ops times both passes of the cases that match, as table and as JSON lines") {
  const auto rows = bench_ops({.filter = "mask_rows", .seconds_per_case = 0});
  REQUIRE(rows.size() == 2);
  std::ostringstream table, lines;
  print_table(table, rows);
  print_json_lines(lines, rows);
  CHECK(table.str().find("mask_rows") != std::string::npos);
  std::istringstream in(lines.str());
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    CHECK(row["op"] == "mask_rows");
    CHECK(row["ms_median"] > 0.0);
    CHECK(row["gigabytes_per_second"] > 0.0);
    CHECK(row["threads"] >= 1);
  }
}

TEST_CASE("bench ops proposes the nearest name") {
  CHECK_THROWS_WITH_AS(bench_ops({.filter = "rmsnorm"}), doctest::Contains("'rms_norm'"), Error);
}
