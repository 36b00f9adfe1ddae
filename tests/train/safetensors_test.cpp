// The reader against good and hostile files (the vectors of the format's own tests among them), the
// writer against the reader.
#include "core/checkpoint/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "registry/error.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using moelab::testing::TemporaryFolder;

namespace {

std::string file_of(const std::string& header, const std::string& data, std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}
std::string file_of(const std::string& header, std::size_t data_bytes) {
  return file_of(header, std::string(data_bytes, '\0'), header.size());
}

// The reason why the reader refuses these bytes; "" if it takes them.
std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  try {
    const SafetensorsReader reader(folder.write("x.safetensors", bytes));
    return {};
  } catch (const Error& problem) {
    CHECK(problem.code() == ExitCode::checkpoint);
    CHECK(std::string(problem.what()).find("x.safetensors") != std::string::npos);
    return problem.what();
  }
}
bool refused_for(const std::string& bytes, const std::string& reason) {
  const std::string text = refusal(bytes);
  INFO(text);
  return text.find(reason) != std::string::npos;
}

}  // namespace

TEST_CASE("safetensors: well-formed files are taken") {
  CHECK(refusal(file_of(R"({"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})", 16)) ==
        "");
  CHECK(
      refusal(file_of(
          R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )",
          8)) == "");
  CHECK(refusal(file_of(R"(  {"t":{"dtype":"F32","shape":[2,0],"data_offsets":[0,0]}}  )", 0)) ==
        "");
  CHECK(refusal(file_of("{}", 0)) == "");
  CHECK(refusal(file_of(R"({"t":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8)) == "");
}

TEST_CASE("safetensors: hostile files are refused with the reason") {
  const std::string good = R"({"t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})";
  CHECK(refused_for("", "shorter than 8"));
  CHECK(refused_for("1234567", "shorter than 8"));
  CHECK(refused_for(file_of(good, "", ~std::uint64_t{0}), "says its header has"));
  CHECK(refused_for(file_of(good, "", 100'000'001), "says its header has"));
  CHECK(refused_for(file_of(good, "", good.size() + 1), "says its header has"));
  CHECK(refused_for(file_of(good, 15), "bytes of data"));
  CHECK(refused_for(file_of(good, 17), "bytes of data"));
  CHECK(refused_for(file_of("[1]", 0), "not a JSON object"));
  CHECK(refused_for(file_of("{", 0), "not JSON"));
  CHECK(refused_for(file_of("", 0), "not JSON"));
  CHECK(refused_for(file_of("{\"\xff\":1}", 0), "not JSON"));
  CHECK(refused_for(file_of(std::string(100000, '['), 0), "nested too deeply"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"I32","shape":[2,[2]],"data_offsets":[0,16]}})", 16),
                    "not a whole number"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"I32","shape":[-2],"data_offsets":[0,16]}})", 16),
                    "not a whole number"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"I32","shape":[2.5],"data_offsets":[0,16]}})", 16),
                    "not a whole number"));
  CHECK(refused_for(
      file_of(R"({"t":{"dtype":"I32","shape":[2,18446744073709551614],"data_offsets":[0,16]}})",
              16),
      "not a whole number"));
  CHECK(refused_for(
      file_of(
          R"({"t":{"dtype":"I32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,16]}})",
          16),
      "overflows"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"I32","shape":[2,2],"data_offsets":[16,0]}})", 16),
                    "offsets are"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"I32","shape":[2,2],"data_offsets":[1,17]}})", 17),
                    "hole or an overlap"));
  CHECK(refused_for(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                            R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                            6),
                    "hole or an overlap"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"I99","shape":[2],"data_offsets":[0,8]}})", 8),
                    "unknown dtype 'I99'"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"I32","shape":[2],"data_offsets":[0,8,9]}})", 8),
                    "wrong kind"));
  CHECK(refused_for(file_of(R"({"t":{"shape":[2],"data_offsets":[0,8]}})", 8), "has no dtype"));
  CHECK(refused_for(file_of(R"({"t":5})", 8), "has no dtype"));
  CHECK(refused_for(file_of(R"({"__metadata__":{"a":1}})", 0), "is not a string"));
  CHECK(refused_for(file_of(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                            1),
                    "stands twice"));
}

TEST_CASE("safetensors: a folder and a missing file are refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(SafetensorsReader(folder.path()), Error);
  CHECK_THROWS_AS(SafetensorsReader(folder.path("none")), Error);
}

TEST_CASE("safetensors: what is written reads back, and its hash is the file's") {
  const TemporaryFolder folder;
  const auto backend = Backend::cpu();
  const Tensor a = backend->empty(DType::f32, {2, 3}), b = backend->empty(DType::f64, {2});
  const Tensor c = backend->empty(DType::i64, Shape{}), none = backend->empty(DType::f32, {0, 3});
  for (Index i = 0; i < 6; ++i) a.data<float>()[i] = 0.1F * static_cast<float>(i) - 1;
  b.data<double>()[0] = 1e-300;
  b.data<double>()[1] = -INFINITY;
  c.data<std::int64_t>()[0] = -7;
  const std::string path = folder.path("x.safetensors");
  SafetensorsWriter writer(path, {{"b", b.dtype(), b.shape()},
                                  {"a", a.dtype(), a.shape()},
                                  {"none", none.dtype(), none.shape()},
                                  {"c", c.dtype(), c.shape()}});
  writer.add("b", b);
  writer.add("a", a);
  writer.add("none", none);
  writer.add("c", c);
  CHECK(writer.finish() == hash_file(path));

  const SafetensorsReader reader(path);
  CHECK(reader.metadata().at("format") == "pt");
  const Tensor a2 = reader.read("a", *backend), b2 = reader.read("b", *backend);
  CHECK(a2.shape() == a.shape());
  CHECK(std::memcmp(a2.raw(), a.raw(), a.bytes()) == 0);
  CHECK(std::memcmp(b2.raw(), b.raw(), b.bytes()) == 0);
  CHECK(reader.read("c", *backend).data<std::int64_t>()[0] == -7);
  CHECK(reader.read("none", *backend).shape() == none.shape());

  const Tensor wide = backend->empty(DType::f64, {2, 3}),
               wrong = backend->empty(DType::f64, {3, 2});
  reader.read("a", wide);
  CHECK(wide.data<double>()[5] == double(a.data<float>()[5]));
  const Tensor middle = backend->empty(DType::f32, {2});
  reader.read_elements("a", 3, middle);
  CHECK(middle.data<float>()[1] == a.data<float>()[4]);
  CHECK_THROWS_AS(reader.read("a", wrong), Error);
  CHECK_THROWS_AS(reader.read("absent", wide), Error);
  CHECK_THROWS_AS(reader.read("c", backend->empty(DType::f32, Shape{})), Error);
}

TEST_CASE("safetensors: half and brain floats widen exactly") {
  const TemporaryFolder folder;
  const std::uint16_t half[] = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x03FF, 0x7C00, 0x8000};
  const std::uint16_t brain[] = {0x3F80, 0xC049, 0x0001, 0xFF80};
  std::string data(reinterpret_cast<const char*>(half), sizeof half);
  data.append(reinterpret_cast<const char*>(brain), sizeof brain);
  const std::string header = R"({"h":{"dtype":"F16","shape":[7],"data_offsets":[0,14]},)"
                             R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[14,22]}})";
  const SafetensorsReader reader(folder.write("x", file_of(header, data, header.size())));
  const auto backend = Backend::cpu();
  const Tensor h = backend->empty(DType::f64, {7}), b = backend->empty(DType::f32, {4});
  reader.read("h", h);
  reader.read("b", b);
  const double expected[] = {1,        -2,  65504, std::ldexp(1, -24), 1023 * std::ldexp(1, -24),
                             INFINITY, -0.0};
  for (int i = 0; i < 7; ++i) CHECK(h.data<double>()[i] == expected[i]);
  CHECK(std::signbit(h.data<double>()[6]));
  CHECK(b.data<float>()[0] == 1.0F);
  CHECK(b.data<float>()[1] == -3.140625F);
  CHECK(b.data<float>()[2] == std::ldexp(1.0F, -133));
  CHECK(b.data<float>()[3] == -INFINITY);
}
