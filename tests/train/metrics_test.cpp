// The table of metrics, lines of metrics.jsonl, the progress line and the picture of loads.
#include "core/telemetry/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "core/base/check.h"
#include "core/checkpoint/file_io.h"
#include "core/telemetry/progress.h"
#include "registry/text.h"
#include "tests/support/temporary_folder.h"

#include "test_paths.h"

using namespace moelab;
using moelab::testing::TemporaryFolder;

TEST_CASE("metrics: only names of the table can be written") {
  MetricsRow row(3);
  row.set("moe/12/load_cv", 0.5);
  row.set("loss/aux/with slash", 1.0);
  row.set("moe/0/drop_rate/capacity", 0.0);
  CHECK_THROWS_AS(row.set("los", 1.0), InternalError);
  CHECK_THROWS_AS(row.set("moe//load_cv", 1.0), InternalError);
  CHECK_THROWS_AS(row.set("moe/x/load_cv", 1.0), InternalError);
  CHECK_THROWS_AS(row.set("moe/1/load_cvs", 1.0), InternalError);
  CHECK_THROWS_AS(row.set("loss/", 1.0), InternalError);
  std::set<std::string_view> names;
  for (const Metric& metric : metric_table()) {
    CHECK(names.insert(metric.name).second);
    CHECK_FALSE(metric.unit.empty());
    CHECK_FALSE(metric.meaning.empty());
  }
}

TEST_CASE("metrics: docs/metrics.md is what the table says") {
  CHECK(read_text(MOELAB_SOURCE_DIR "/docs/metrics.md") == metrics_markdown());
}

TEST_CASE("metrics: numbers read back exactly") {
  for (const double x : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 12345678901234567.0}) {
    const std::string text = json_number(x);
    CHECK(std::strtod(text.c_str(), nullptr) == x);
  }
  CHECK(json_number(std::nan("")) == "\"NaN\"");
  CHECK(json_number(-std::numeric_limits<double>::infinity()) == "\"-Infinity\"");
  CHECK(json_string("a\"\\\n") == "\"a\\\"\\\\\\u000a\"");
}

TEST_CASE("metrics: the log is cut back to a step, torn lines go") {
  const TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  {
    MetricsLog log(path, 0);
    for (std::int64_t step = 1; step <= 12; ++step) {
      MetricsRow row(step);
      row.set("loss", 1.0 / static_cast<double>(step));
      log.write(row);
    }
  }
  folder.write("torn", read_text(path) + "{\"step\": 3, \"lo");
  { MetricsLog log(folder.path("torn"), 10); }
  const std::string text = read_text(folder.path("torn"));
  CHECK(text.starts_with("{\"step\": 1, \"loss\": 1}\n{\"step\": 2, \"loss\": 0.5}\n"));
  CHECK(text.ends_with("{\"step\": 10, \"loss\": 0.1}\n"));
}

TEST_CASE("progress: in place on a terminal, plain lines elsewhere, nothing when quiet") {
  const ProgressState state{5, 10, 2.5, 1000, 65, 1.25};
  const std::string line = "step 5/10  loss 2.5000  1000 tokens/s  ETA 1:05  load max/mean 1.25";
  CHECK(progress_line(state, false) == line);
  CHECK(progress_line(state, true).find("\033[1m") != std::string::npos);
  ProgressState broken = state;
  broken.loss = std::copysign(std::nan(""), -1.0);
  CHECK(progress_line(broken, false).starts_with("step 5/10  loss nan  1000"));
  const auto shown = [&](ProgressStyle style) {
    std::ostringstream out;
    Progress progress(out, style);
    progress.update(state);
    progress.update(state);
    progress.note("a note");
    progress.finish();
    return out.str();
  };
  CHECK(shown({}) == line + "\na note\n");
  CHECK(shown({.terminal = true}) ==
        "\r" + line + "\033[K\r\033[Ka note\n\r" + line + "\033[K\r" + line + "\033[K\n");
  CHECK(shown({.quiet = true}).empty());
  CHECK(duration_text(3723) == "1:02:03");
}

TEST_CASE("loads: summary and picture") {
  const LoadSummary load = summarize({2, 0, 4, 2});
  CHECK(load.max_over_mean == 2);
  CHECK(load.dead == 1);
  CHECK(load.cv == doctest::Approx(std::sqrt(0.5)));
  CHECK(summarize({0, 0}).max_over_mean == 0);
  CHECK(load_picture({{3, {2, 0, 4, 2}}}) == "  layer  3  ▄·█▄  max/mean 2.00  cv 0.71  dead 1\n");
}
