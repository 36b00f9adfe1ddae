// safetensors files: a reader that trusts nothing and a writer that streams. Format: u64 header
// length, JSON header, data (https://github.com/huggingface/safetensors). Mistakes of a file are
// Error(checkpoint) naming file, tensor and rule; nothing is read through a mapping, so that a file
// that shrinks meanwhile is an error too.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/checkpoint/file_io.h"

namespace moelab {

class SafetensorsReader {
 public:
  struct Entry {
    std::string dtype;         // as in the file: "F32", "BF16"
    std::vector<Index> shape;  // any rank
    std::uint64_t begin = 0, end = 0;
    Index numel() const;
  };
  explicit SafetensorsReader(std::string path);  // opens and validates the whole header
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(const std::string& name) const { return entries_.contains(name); }
  // Fills `into`, whose shape must equal the file's. Reals (F16, BF16, F32, F64) convert to f32 or
  // f64; every other dtype must be the same on both sides.
  void read(const std::string& name, const Tensor& into) const;
  // The same for elements [first, first + into.numel()) of the tensor, whatever its shape: parts of
  // fused tensors.
  void read_elements(const std::string& name, Index first, const Tensor& into) const;
  // As it stands in the file: F32, F64, BF16, I32, I64, U8 of up to 4 axes.
  Tensor read(const std::string& name, const Backend& backend) const;

 private:
  const Entry& find(const std::string& name) const;
  std::string path_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::uint64_t data_start_ = 0;
  int file_ = -1;
};

class SafetensorsWriter {
 public:
  struct Item {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
  };
  // Writes the header; `items` is the order in which add() will bring the data.
  SafetensorsWriter(const std::string& path, const std::vector<Item>& items,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  void add(const std::string& name, const Tensor& value);
  std::string finish();  // fsyncs; returns the file's hash. REQUIRES: every item was added

 private:
  std::vector<Item> items_;
  std::size_t next_ = 0;
  DurableFile file_;
};

}  // namespace moelab
