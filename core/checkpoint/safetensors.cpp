#include "core/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/checkpoint/json.h"
#include "registry/error.h"

namespace moelab {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::size_t kMostAxes = 8;
constexpr Index kBlock = 1 << 16;  // elements converted at a time

// Bits of an element by the format's names; 0: unknown.
int bits_of(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int> kBits[] = {
      {"BOOL", 8},        {"U8", 8},          {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"I16", 16}, {"U16", 16},    {"F16", 16},
      {"F8_E5M2FNUZ", 8}, {"BF16", 16},       {"I32", 32}, {"U32", 32},    {"F32", 32},
      {"C64", 64},        {"F64", 64},        {"I64", 64}, {"U64", 64},    {"F4", 4},
      {"F6_E2M3", 6},     {"F6_E3M2", 6}};
  for (const auto& [name, bits] : kBits)
    if (name == dtype) return bits;
  return 0;
}

const char* file_dtype(DType dtype) {
  static constexpr const char* kNames[] = {"F32", "F64", "BF16", "I32", "I64", "U8"};
  return kNames[static_cast<int>(dtype)];
}

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::checkpoint, str(path, ": ", reason));
}

void read_at(int file, const std::string& path, std::uint64_t offset, void* into, std::size_t n) {
  auto* at = static_cast<std::byte*>(into);
  while (n > 0) {
    const ssize_t got = ::pread(file, at, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, str("cannot be read: ", std::strerror(errno)));
    if (got == 0) refuse(path, "ends before its data does");
    at += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
}

float half_to_float(std::uint16_t half) {
  const int exponent = (half >> 10) & 31, fraction = half & 1023;
  const float sign = (half & 0x8000) ? -1.0F : 1.0F;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}
float brain_to_float(std::uint16_t brain) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16);
}

// Reads n elements stored as S and gives each to `into` through `widen`.
template <class S, class T, class Widen>
void convert(int file, const std::string& path, std::uint64_t offset, T* into, Index n,
             const Widen& widen) {
  std::vector<S> block(static_cast<std::size_t>(std::min(n, kBlock)));
  for (Index done = 0; done < n; done += kBlock) {
    const auto count = static_cast<std::size_t>(std::min(kBlock, n - done));
    read_at(file, path, offset + static_cast<std::uint64_t>(done) * sizeof(S), block.data(),
            count * sizeof(S));
    for (std::size_t i = 0; i < count; ++i) into[done + static_cast<Index>(i)] = T(widen(block[i]));
  }
}

// The rules on one entry alone; those between entries are in the constructor.
void check_entry(const std::string& path, const SafetensorsHeader::Entry& entry) {
  const std::string where = str("tensor '", entry.name, "' ");
  const int bits = bits_of(entry.dtype);
  if (bits == 0) refuse(path, str(where, "has the unknown dtype '", entry.dtype, "'"));
  if (entry.shape.size() > kMostAxes) refuse(path, str(where, "has more than 8 axes"));
  std::uint64_t total = static_cast<std::uint64_t>(bits);
  for (const std::int64_t size : entry.shape)
    if (__builtin_mul_overflow(total, static_cast<std::uint64_t>(size), &total))
      refuse(path, str(where, "has a shape that overflows"));
  if (entry.end < entry.begin || total % 8 != 0 || entry.end - entry.begin != total / 8)
    refuse(path, str(where, "of dtype ", entry.dtype, " needs ", total / 8,
                     " bytes, but its offsets are [", entry.begin, ", ", entry.end, ")"));
}

Shape shape_of(const std::vector<Index>& s) {
  switch (s.size()) {
    case 0:
      return Shape{};
    case 1:
      return Shape{s[0]};
    case 2:
      return Shape{s[0], s[1]};
    case 3:
      return Shape{s[0], s[1], s[2]};
    default:
      return Shape{s[0], s[1], s[2], s[3]};
  }
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string out = "[";
  for (const Index size : shape) out += str(out.size() > 1 ? ", " : "", size);
  return out + "]";
}

}  // namespace

Index SafetensorsReader::Entry::numel() const {
  Index n = 1;
  for (const Index size : shape) n *= size;
  return n;
}

SafetensorsReader::SafetensorsReader(std::string path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file_ < 0 || ::fstat(file_, &status) != 0)
    refuse(path_, str("cannot be opened: ", std::strerror(errno)));
  try {
    if (!S_ISREG(status.st_mode)) refuse(path_, "is not a regular file");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    std::uint64_t length = 0;
    if (size < sizeof length) refuse(path_, "is shorter than 8 bytes");
    read_at(file_, path_, 0, &length, sizeof length);
    if (length > kLongestHeader || length > size - sizeof length)
      refuse(path_, str("says its header has ", length, " bytes; it has ", size, " in all"));
    std::string text(length, '\0');
    read_at(file_, path_, sizeof length, text.data(), text.size());
    SafetensorsHeader header;
    try {
      header = parse_safetensors_header(text);
    } catch (const Error& problem) {
      refuse(path_, str("header: ", problem.what()));
    }
    data_start_ = sizeof length + length;
    std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t next = 0;
    for (const auto& entry : header.entries) {
      check_entry(path_, entry);
      if (entry.begin != next)
        refuse(path_, str("tensor '", entry.name, "' starts at byte ", entry.begin,
                          " of the data, not at ", next, ": a hole or an overlap"));
      next = entry.end;
      entries_[entry.name] = {entry.dtype, entry.shape, entry.begin, entry.end};
    }
    if (next != size - data_start_)
      refuse(path_, str("has ", size - data_start_, " bytes of data, its header tells of ", next));
    metadata_ = std::move(header.metadata);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

SafetensorsReader::~SafetensorsReader() {
  if (file_ >= 0) ::close(file_);
}

SafetensorsReader::SafetensorsReader(SafetensorsReader&& other) noexcept
    : path_(std::move(other.path_)),
      entries_(std::move(other.entries_)),
      metadata_(std::move(other.metadata_)),
      data_start_(other.data_start_),
      file_(std::exchange(other.file_, -1)) {}

const SafetensorsReader::Entry& SafetensorsReader::find(const std::string& name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) refuse(path_, str("has no tensor '", name, "'"));
  return at->second;
}

void SafetensorsReader::read(const std::string& name, const Tensor& into) const {
  const Entry& entry = find(name);
  bool fits = static_cast<int>(entry.shape.size()) == into.rank();
  for (int axis = 0; fits && axis < into.rank(); ++axis)
    fits = entry.shape[static_cast<std::size_t>(axis)] == into.size(axis);
  if (!fits)
    refuse(path_, str("tensor '", name, "' has the shape ", shape_text(entry.shape), ", expected ",
                      into.shape().text()));
  read_elements(name, 0, into);
}

void SafetensorsReader::read_elements(const std::string& name, Index first,
                                      const Tensor& into) const {
  const Entry& entry = find(name);
  MOELAB_CHECK(first >= 0 && first + into.numel() <= entry.numel(), name, " first ", first, " of ",
               entry.numel());
  const Index n = into.numel();
  const auto start = [&](std::size_t size) {
    return data_start_ + entry.begin + static_cast<std::uint64_t>(first) * size;
  };
  if (entry.dtype == file_dtype(into.dtype())) {
    read_at(file_, path_, start(size_of(into.dtype())), into.raw(), into.bytes());
    return;
  }
  const bool real = into.dtype() == DType::f32 || into.dtype() == DType::f64;
  const bool known =
      entry.dtype == "F16" || entry.dtype == "BF16" || entry.dtype == "F32" || entry.dtype == "F64";
  if (!real || !known)
    refuse(path_, str("tensor '", name, "' is ", entry.dtype, " and cannot be read as ",
                      name_of(into.dtype())));
  dispatch_real(into.dtype(), "safetensors", [&](auto zero) {
    using T = decltype(zero);
    T* out = into.data<T>();
    if (entry.dtype == "F16")
      convert<std::uint16_t>(file_, path_, start(2), out, n, half_to_float);
    else if (entry.dtype == "BF16")
      convert<std::uint16_t>(file_, path_, start(2), out, n, brain_to_float);
    else if (entry.dtype == "F32")
      convert<float>(file_, path_, start(4), out, n, [](float x) { return x; });
    else
      convert<double>(file_, path_, start(8), out, n, [](double x) { return x; });
  });
}

Tensor SafetensorsReader::read(const std::string& name, const Backend& backend) const {
  const Entry& entry = find(name);
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    if (entry.dtype != file_dtype(dtype) || entry.shape.size() > 4) continue;
    Tensor out = backend.empty(dtype, shape_of(entry.shape));
    read_elements(name, 0, out);
    return out;
  }
  refuse(path_, str("tensor '", name, "' of dtype ", entry.dtype, " and shape ",
                    shape_text(entry.shape), " has no counterpart here"));
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<Item>& items,
                                     const std::map<std::string, std::string>& metadata)
    : items_(items), file_(path) {
  SafetensorsHeader header;
  header.metadata = metadata;
  std::uint64_t next = 0;
  for (const Item& item : items_) {
    SafetensorsHeader::Entry entry{item.name, file_dtype(item.dtype), {}, next, next};
    for (int axis = 0; axis < item.shape.rank(); ++axis) entry.shape.push_back(item.shape[axis]);
    entry.end = next += static_cast<std::uint64_t>(item.shape.numel()) * size_of(item.dtype);
    header.entries.push_back(std::move(entry));
  }
  std::string text = safetensors_header_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(text);
}

void SafetensorsWriter::add(const std::string& name, const Tensor& value) {
  MOELAB_CHECK(next_ < items_.size() && items_[next_].name == name &&
                   items_[next_].shape == value.shape() && items_[next_].dtype == value.dtype(),
               "added ", name, " ", value.shape().text());
  ++next_;
  if (value.numel() > 0) file_.write(std::span<const std::byte>(value.raw(), value.bytes()));
}

std::string SafetensorsWriter::finish() {
  MOELAB_CHECK(next_ == items_.size(), next_, " of ", items_.size(), " tensors were added");
  return file_.finish();
}

}  // namespace moelab
