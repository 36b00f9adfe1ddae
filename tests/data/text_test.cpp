#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/data/windows.h"
#include "tests/data/make_dataset.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

std::string text_recipe(const std::string& path, const std::string& more = "") {
  return "type = \"text\"\npath = \"" + path + "\"\n" + more;
}

// The held-out text as the rows' targets tell it, with how often each byte is scored.
void check_heldout_scored_once(const Dataset& data, std::int64_t length) {
  const std::string expected = data.raw(Split::heldout);
  std::string scored;
  for (std::int64_t r = 0; r < data.heldout_rows(); ++r) {
    const Row row = data.heldout_row(r);
    REQUIRE(row.input.size() == static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < row.target.size(); ++i) {
      if (row.target[i] < 0) continue;
      CHECK(row.valid[i] == 1);
      scored += static_cast<char>(row.target[i]);
    }
  }
  CHECK(scored == expected);
}

}  // namespace

TEST_CASE("text: the last bytes are held out and every one is scored exactly once") {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.txt", numbered_text(1003));
  for (const std::string stride : {"", "heldout_stride = 3\n", "heldout_stride = 8\n"}) {
    CAPTURE(stride);
    const auto data = make_dataset(text_recipe(path, "heldout_fraction = 0.1\n" + stride), {});
    CHECK(data->bytes(Split::heldout) == 100);
    CHECK(data->raw(Split::train) + data->raw(Split::heldout) == numbered_text(1003));
    check_heldout_scored_once(*data, 8);
    // The first held-out byte has the last training byte before it.
    CHECK(data->heldout_row(0).input[0] ==
          static_cast<unsigned char>(data->raw(Split::train).back()));
  }
}

TEST_CASE("text: held-out rows that overlap give every scored byte after the first row context") {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.txt", numbered_text(1000));
  const auto data = make_dataset(text_recipe(path, "heldout_stride = 2\n"), {});
  const Row row = data->heldout_row(1);
  for (std::size_t i = 0; i < 6; ++i) CHECK(row.target[i] == -1);
  CHECK(row.target[6] >= 0);
  CHECK(row.input[7] == row.target[6]);
}

TEST_CASE("text: a held-out part shorter than a row is one padded row") {
  const TemporaryFolder folder;
  const auto data = make_dataset(
      text_recipe(folder.write("t.txt", numbered_text(100)), "heldout_fraction = 0.03\n"), {});
  REQUIRE(data->heldout_rows() == 1);
  const Row row = data->heldout_row(0);
  CHECK(row.valid == std::vector<std::uint8_t>{1, 1, 1, 0, 0, 0, 0, 0});
  CHECK(row.target[3] == -1);
}

TEST_CASE("text: sequential rows start where the formula says") {
  const TemporaryFolder folder;
  const std::string text = numbered_text(97);
  const auto data = make_dataset(
      text_recipe(folder.write("t.txt", text), "heldout_fraction = 0\norder = \"sequential\"\n"),
      {.length = 8, .batch = 3});
  for (std::int64_t step : {0, 1, 7, 1000}) {
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::int64_t start = (step * 3 + b) * 8 % (97 - 8 - 1);
      const Row row = data->train_row(step, b);
      for (std::size_t i = 0; i < 8; ++i) {
        CHECK(row.input[i] ==
              static_cast<unsigned char>(text[static_cast<std::size_t>(start) + i]));
        CHECK(row.target[i] ==
              static_cast<unsigned char>(text[static_cast<std::size_t>(start) + i + 1]));
        CHECK(row.position[i] == static_cast<std::int32_t>(i));
      }
    }
  }
}

TEST_CASE("shuffled windows: each once an epoch, other ones with another seed, inside the text") {
  const RowOrder order{Order::shuffled, 7, 4};
  const std::int64_t length = 8, size = 1000, windows = (size - length) / length;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t start = order.window(i / 4, i % 4, length, size);
    CHECK(start >= 0);
    CHECK(start + length < size);
    seen.insert(start / length);
    CHECK(start == order.window(i / 4, i % 4, length, size));
  }
  CHECK(seen.size() == static_cast<std::size_t>(windows));
  const RowOrder other{Order::shuffled, 8, 4};
  int same = 0;
  for (std::int64_t i = 0; i < windows; ++i)
    same += order.window(0, i, length, size) == other.window(0, i, length, size) ? 1 : 0;
  CHECK(same < windows / 4);
}

TEST_CASE("shuffled windows stay inside texts of every length from the shortest on") {
  const RowOrder order{Order::shuffled, 1, 1};
  for (std::int64_t size = 10; size < 40; ++size)
    for (std::int64_t step = 0; step < 50; ++step) {
      const std::int64_t start = order.window(step, 0, 8, size);
      CHECK(start >= 0);
      CHECK(start + 8 < size);
    }
}

TEST_CASE("text: a folder is read in the order of its paths, all regular files, recursively") {
  const TemporaryFolder folder;
  folder.write("corpus/b.txt", "BBBB");
  folder.write("corpus/a/z.txt", "zzzz");
  folder.write("corpus/a.txt", "aaaa");
  folder.write("corpus/empty.txt", "");
  const auto data =
      make_dataset(text_recipe(folder.path("corpus"), "heldout_fraction = 0\n"), {.length = 4});
  CHECK(data->raw(Split::train) == "zzzzaaaaBBBB");
}

TEST_CASE("text: the fingerprint changes with a byte and with the cut, not with the seed") {
  const TemporaryFolder folder;
  std::string text = numbered_text(500);
  const std::string a = folder.write("a.txt", text);
  text[250] = 'x';
  const std::string b = folder.write("b.txt", text);
  const auto of = [](const std::string& path, const std::string& more, std::uint64_t seed) {
    return make_dataset(text_recipe(path, more), {.seed = seed})->fingerprint();
  };
  CHECK(of(a, "", 1) == of(a, "", 2));
  CHECK(of(a, "", 1) != of(b, "", 1));
  CHECK(of(a, "", 1) != of(a, "heldout_fraction = 0.2\n", 1));
  CHECK(of(a, "", 1) != of(a, "order = \"sequential\"\n", 1));
}

TEST_CASE("text: what cannot be read is an error of data that names path and remedy") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("none"));
  const std::string fifo = folder.path("fifo");
  REQUIRE(std::system(("mkfifo '" + fifo + "'").c_str()) == 0);
  const std::map<std::string, std::string> cases{
      {folder.path("missing.txt"), "does not exist"},
      {folder.path("none"), "without regular files"},
      {folder.write("empty.txt", ""), "holds no bytes"},
      {folder.write("short.txt", "abc"), "too short"},
      {fifo, "neither a regular file nor a folder"},
  };
  for (const auto& [path, what] : cases) {
    CAPTURE(path);
    try {
      make_dataset(text_recipe(path), {});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      CHECK(std::string(error.what()).find(what) != std::string::npos);
      CHECK(std::string(error.what()).find(path) != std::string::npos);
    }
  }
}

TEST_CASE("byte: decoding gives back exactly what was encoded") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto tokenizer = Component<Tokenizer>("byte").make({});
  CHECK(tokenizer->decode(tokenizer->encode(all)) == all);
  CHECK(tokenizer->vocabulary() == 256);
}
