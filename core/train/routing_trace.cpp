#include "core/train/routing_trace.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/checkpoint/safetensors.h"
#include "core/moe/forced_routing.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "moelab routing 1";
constexpr const char* kEnding = ".safetensors";
constexpr Phase kPhases[] = {Phase::train, Phase::eval, Phase::inference};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, str(path, ": ", what));
}

template <class T>
Tensor tensor_of(const Backend& backend, DType dtype, Shape shape, const std::vector<T>& values) {
  const Tensor out = backend.empty(dtype, shape);
  const auto put = [&](auto* to) {
    for (std::size_t i = 0; i < values.size(); ++i)
      to[i] = static_cast<std::remove_pointer_t<decltype(to)>>(values[i]);
  };
  if (dtype == DType::i32) put(out.data<std::int32_t>());
  if (dtype == DType::i64) put(out.data<std::int64_t>());
  if (dtype == DType::u8) put(out.data<std::uint8_t>());
  if (dtype == DType::f32) put(out.data<float>());
  if (dtype == DType::f64) put(out.data<double>());
  return out;
}

struct NamedTensor {
  std::string name;
  Tensor value;
};

std::vector<NamedTensor> tensors_of(const RoutingTrace& trace, const Backend& backend) {
  std::vector<NamedTensor> out;
  const auto add = [&](const std::string& name, DType dtype, Shape shape, const auto& values) {
    out.push_back({name, tensor_of(backend, dtype, shape, values)});
  };
  for (std::size_t m = 0; m < trace.batches.size(); ++m) {
    const TracedBatch& batch = trace.batches[m];
    add(str("m", m, ".token"), DType::i32, {batch.rows, batch.length}, batch.token_T);
    add(str("m", m, ".valid"), DType::u8, {batch.rows, batch.length}, batch.valid_T);
    for (const TracedLayer& layer : batch.layers) {
      const std::string at = str("m", m, ".layer", layer.layer, ".");
      const auto length = [](const auto& values) {
        return Shape{static_cast<Index>(values.size())};
      };
      add(at + "experts", DType::i64, {1}, std::vector<Index>{layer.experts});
      add(at + "offset", DType::i64, length(layer.offset_T1), layer.offset_T1);
      add(at + "expert", DType::i32, length(layer.expert_P), layer.expert_P);
      add(at + "weight", trace.dtype, length(layer.weight_P), layer.weight_P);
      add(at + "fate", DType::u8, length(layer.fate_P), layer.fate_P);
    }
  }
  return out;
}

// Reads one file; what a name means is said in the header.
class Reading {
 public:
  explicit Reading(const std::string& path) : reader_(path), backend_(Backend::cpu()) {}

  RoutingTrace run() {
    if (text("format") != kFormat)
      refuse(reader_.path(),
             "is no recorded routing: its metadata lack format = \"" + std::string(kFormat) + "\"");
    RoutingTrace trace;
    const std::string phase = text("phase");
    const auto known = std::ranges::find(kPhases, phase, phase_name);
    if (known == std::end(kPhases)) refuse(reader_.path(), "has the unknown phase '" + phase + "'");
    trace.phase = *known;
    trace.step = number("step");
    const Index batches = number("micro_batches");
    for (Index m = 0; m < batches; ++m) trace.batches.push_back(batch(m, trace.dtype));
    return trace;
  }

 private:
  std::string text(const std::string& key) const {
    const auto at = reader_.metadata().find(key);
    return at == reader_.metadata().end() ? "" : at->second;
  }
  Index number(const std::string& key) const {
    const std::string given = text(key);
    Index value = -1;
    const auto [stop, failure] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (failure != std::errc() || stop != given.data() + given.size() || value < 0)
      refuse(reader_.path(), str("has ", key, " = '", given, "', which is no number"));
    return value;
  }

  template <class T>
  std::vector<T> values(const std::string& name, DType dtype) const {
    const Tensor t = reader_.read(name, *backend_);
    if (t.dtype() != dtype)
      refuse(reader_.path(),
             str("tensor '", name, "' is ", name_of(t.dtype()), ", not ", name_of(dtype)));
    const auto span = t.span<T>();
    return {span.begin(), span.end()};
  }
  std::vector<double> weights(const std::string& name, DType& dtype) const {
    dtype =
        reader_.has(name) && reader_.entries().at(name).dtype == "F64" ? DType::f64 : DType::f32;
    if (dtype == DType::f64) return values<double>(name, dtype);
    const std::vector<float> narrow = values<float>(name, dtype);
    return {narrow.begin(), narrow.end()};
  }

  TracedBatch batch(Index m, DType& dtype) const {
    const std::string at = str("m", m, ".");
    TracedBatch out;
    out.token_T = values<std::int32_t>(at + "token", DType::i32);
    out.valid_T = values<std::uint8_t>(at + "valid", DType::u8);
    const auto& shape = reader_.entries().at(at + "token").shape;
    if (shape.size() != 2 || out.valid_T.size() != out.token_T.size())
      refuse(reader_.path(), str("micro-batch ", m, ": token and valid must be [rows, length]"));
    out.rows = shape[0];
    out.length = shape[1];
    for (const Index layer : layers_of(at)) out.layers.push_back(read_layer(m, layer, out, dtype));
    return out;
  }

  std::vector<Index> layers_of(const std::string& at) const {
    std::vector<Index> out;
    const std::string start = at + "layer", end = ".expert";
    for (const auto& [name, entry] : reader_.entries()) {
      if (!name.starts_with(start) || !name.ends_with(end)) continue;
      Index layer = -1;
      const char* last = name.data() + name.size() - end.size();
      const auto [stop, failure] = std::from_chars(name.data() + start.size(), last, layer);
      if (failure == std::errc() && stop == last && layer >= 0) out.push_back(layer);
    }
    std::ranges::sort(out);
    return out;
  }

  TracedLayer read_layer(Index m, Index block, const TracedBatch& of, DType& dtype) const {
    const std::string at = str("m", m, ".layer", block, ".");
    TracedLayer out;
    out.layer = block;
    const auto experts = values<std::int64_t>(at + "experts", DType::i64);
    out.experts = experts.empty() ? 0 : experts.front();
    out.offset_T1 = values<Index>(at + "offset", DType::i64);
    out.expert_P = values<std::int32_t>(at + "expert", DType::i32);
    out.weight_P = weights(at + "weight", dtype);
    for (const std::uint8_t fate : values<std::uint8_t>(at + "fate", DType::u8))
      out.fate_P.push_back(static_cast<PairFate>(fate));
    const std::string where = str("micro-batch ", m, ", layer ", block, ": ");
    if (out.weight_P.size() != out.expert_P.size() || out.fate_P.size() != out.expert_P.size())
      refuse(reader_.path(), where + "expert, weight and fate differ in length");
    if (const std::string problem =
            routing_problem({out.offset_T1, out.expert_P}, out.experts, of.valid_T);
        !problem.empty())
      refuse(reader_.path(), where + problem);
    return out;
  }

  SafetensorsReader reader_;
  std::shared_ptr<Backend> backend_;
};

std::optional<TraceFile> trace_file(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const Phase phase : kPhases) {
    const std::string start = str(phase_name(phase), "-");
    if (!name.starts_with(start) || !name.ends_with(kEnding)) continue;
    TraceFile file{phase, -1, path.string()};
    const char* last = name.data() + name.size() - std::string_view(kEnding).size();
    const auto [stop, failure] = std::from_chars(name.data() + start.size(), last, file.step);
    if (failure == std::errc() && stop == last && file.step >= 0) return file;
  }
  return {};
}

}  // namespace

std::string_view phase_name(Phase phase) {
  return phase == Phase::train ? "train" : phase == Phase::eval ? "eval" : "generate";
}

void write_trace(const std::string& folder, const RoutingTrace& trace) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw Error(ExitCode::resources, str("cannot create ", folder, ": ", failure.message()));
  std::string step = std::to_string(trace.step);
  constexpr std::size_t kDigits = 8;  // so that names sort by step
  if (step.size() < kDigits) step.insert(0, kDigits - step.size(), '0');
  const std::string path = str(folder, "/", phase_name(trace.phase), "-", step, kEnding);
  const auto backend = Backend::cpu();
  const std::vector<NamedTensor> tensors = tensors_of(trace, *backend);
  std::vector<SafetensorsWriter::Item> items;
  for (const NamedTensor& t : tensors) items.push_back({t.name, t.value.dtype(), t.value.shape()});
  SafetensorsWriter writer(path + ".new", items,
                           {{"format", kFormat},
                            {"phase", std::string(phase_name(trace.phase))},
                            {"step", std::to_string(trace.step)},
                            {"micro_batches", std::to_string(trace.batches.size())}});
  for (const NamedTensor& t : tensors) writer.add(t.name, t.value);
  writer.finish();
  fs::rename(path + ".new", path, failure);
  if (failure)
    throw Error(ExitCode::resources, str("cannot write ", path, ": ", failure.message()));
}

RoutingTrace read_trace(const std::string& path) {
  try {
    return Reading(path).run();
  } catch (const Error& problem) {  // of the file as safetensors
    if (problem.code() != ExitCode::checkpoint) throw;
    throw Error(ExitCode::data, problem.what());
  }
}

void discard_traces_after(const std::string& folder, Index step) {
  std::error_code failure;
  std::vector<fs::path> later;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (const auto file = trace_file(entry.path()); file && file->step > step)
      later.push_back(entry.path());
  for (const fs::path& path : later) fs::remove(path, failure);
}

std::vector<TraceFile> find_traces(const std::string& path) {
  std::vector<TraceFile> out;
  std::error_code failure;
  if (fs::is_regular_file(path, failure)) {
    const RoutingTrace trace = read_trace(path);  // whatever its name
    return {{trace.phase, trace.step, path}};
  }
  for (const std::string& folder : {path + "/trace", path}) {
    for (const auto& entry : fs::directory_iterator(folder, failure))
      if (const auto file = trace_file(entry.path())) out.push_back(*file);
    if (!out.empty()) break;
  }
  if (out.empty())
    throw Error(ExitCode::data,
                str(path,
                    " holds no recorded routing; name a run's folder whose recipe set "
                    "trace.steps, its trace folder, or one file of it"));
  std::ranges::sort(out, {}, [](const TraceFile& f) { return std::pair(f.phase, f.step); });
  return out;
}

}  // namespace moelab
