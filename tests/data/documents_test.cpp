#include <doctest/doctest.h>

#include "tests/data/make_dataset.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

using Ints = std::vector<std::int32_t>;

std::string documents_recipe(const std::string& path, const std::string& more) {
  return "type = \"documents\"\npath = \"" + path + "\"\norder = \"sequential\"\n" + more;
}

std::string heldout_as_scored(const Dataset& data) {
  std::string scored;
  for (std::int64_t r = 0; r < data.heldout_rows(); ++r) {
    const Row row = data.heldout_row(r);
    for (const std::int32_t target : row.target)
      if (target >= 0) scored += static_cast<char>(target);
  }
  return scored;
}

}  // namespace

TEST_CASE("documents, pack: ids and positions start again, nothing is predicted across") {
  const TemporaryFolder folder;
  folder.write("d/1", "abc");
  folder.write("d/2", "de");
  folder.write("d/3", "fghijkl");
  const auto data = make_dataset(documents_recipe(folder.path("d"), "heldout_fraction = 0\n"), {});
  const Row row = data->train_row(0, 0);
  CHECK(row.input == Ints{'\n', 'a', 'b', '\n', 'd', '\n', 'f', 'g'});
  CHECK(row.target == Ints{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'});
  CHECK(row.document == Ints{0, 0, 0, 1, 1, 2, 2, 2});
  CHECK(row.position == Ints{0, 1, 2, 0, 1, 0, 1, 2});
  // A window that begins inside a document keeps the token before it as context.
  const Row next = data->train_row(0, 1);  // starts at 8 mod 4 = 0 of 12 pairs
  CHECK(next.input == row.input);
}

TEST_CASE("documents, pack: a window may begin inside a document") {
  const TemporaryFolder folder;
  folder.write("d/1", "abcdefghijklmnopqrstuvwxyz");
  folder.write("d/2", "0123456789");
  const auto data = make_dataset(documents_recipe(folder.path("d"), "heldout_fraction = 0\n"),
                                 {.length = 8, .batch = 4});
  const Row row = data->train_row(0, 3);  // pairs 24 … 31 of 36
  CHECK(row.input == Ints{'x', 'y', '\n', '0', '1', '2', '3', '4'});
  CHECK(row.position == Ints{0, 1, 0, 1, 2, 3, 4, 5});
  CHECK(row.document == Ints{0, 0, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("documents, pad: one document a row, long ones go on, the rest is padding") {
  const TemporaryFolder folder;
  folder.write("d/1", "abc");
  folder.write("d/2", "defghijklm");
  const auto data = make_dataset(
      documents_recipe(folder.path("d"), "mode = \"pad\"\nheldout_fraction = 0\n"), {});
  const Row first = data->train_row(0, 0);
  CHECK(first.input == Ints{'\n', 'a', 'b', 0, 0, 0, 0, 0});
  CHECK(first.target == Ints{'a', 'b', 'c', -1, -1, -1, -1, -1});
  CHECK(first.valid == std::vector<std::uint8_t>{1, 1, 1, 0, 0, 0, 0, 0});
  CHECK(first.document == Ints{0, 0, 0, -1, -1, -1, -1, -1});
  const Row third = data->train_row(0, 2);
  CHECK(third.input == Ints{'k', 'l', 0, 0, 0, 0, 0, 0});
  CHECK(third.target == Ints{'l', 'm', -1, -1, -1, -1, -1, -1});
  CHECK(data->train_row(0, 3).input == first.input);  // three items an epoch
}

TEST_CASE("documents: separators end documents and stay with them; every held-out byte is scored") {
  const TemporaryFolder folder;
  const std::string text = "one\n\ntwo\n\n\n\nthree\n\nfour and more\n\nfive\n\nsix";
  const std::string path = folder.write("t.txt", text);
  for (const std::string mode : {"pack", "pad"}) {
    CAPTURE(mode);
    const auto data = make_dataset(
        documents_recipe(
            path, "separator = \"\\n\\n\"\nheldout_fraction = 0.4\nmode = \"" + mode + "\"\n"),
        {});
    CHECK(data->raw(Split::train) + data->raw(Split::heldout) == text);
    CHECK(data->raw(Split::heldout) == "four and more\n\nfive\n\nsix");
    CHECK(heldout_as_scored(*data) == data->raw(Split::heldout));
    CHECK(data->describe().find("6 documents, 3 of them held out") != std::string::npos);
  }
}

TEST_CASE("documents: holding out every document is an error of data") {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.txt", "only one document here");
  CHECK_THROWS_WITH_AS(make_dataset(documents_recipe(path, ""), {}),
                       doctest::Contains("would be held out"), Error);
}
