#include "tests/golden_tests/hf_weights.h"

#include <array>
#include <stdexcept>

#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

bool starts_with(const std::string& text, std::string_view with) {
  return text.rfind(with, 0) == 0;
}

}  // namespace

std::string hf_gate(const GoldenCase& c) {
  for (const char* name :
       {"gate", "router", "router.layer", "gate.wg", "router.gate", "router.classifier"})
    if (c.has(std::string("weight.") + name + ".weight")) return name;
  throw std::runtime_error("does not know the name of the gate");
}

HfWeights::HfWeights(const GoldenCase& c) : c_(c), layout_(c.text("layout")) {
  const GoldenCase expert = c.object("expert");
  if (expert.given("names")) w123_ = expert.text("names") == "w123";
  if (expert.given("experts") && expert.integer("experts") != c.integer("experts_with_weights"))
    throw std::runtime_error("does not know experts without weights in layout " + layout_);
  if (c.given("shared")) shared_prefix_ = c.object("shared").text("prefix");
}

Index HfWeights::expert_width() const {
  if (layout_ == "per_expert")
    return c_.tensor("weight.experts.0." + projection_name("up_proj") + ".weight").size(0);
  if (layout_ == "gpt_oss" || layout_ == "llama4")
    return c_.tensor("weight.experts.down_proj").size(1);
  if (layout_ == "granitemoe") return c_.tensor("weight.output_linear.weight").size(2);
  if (layout_ == "dbrx")
    return c_.tensor("weight.experts.mlp.w1").size(0) / c_.integer("experts_with_weights");
  throw std::runtime_error("does not know layout " + layout_);
}

bool HfWeights::expert_bias() const { return c_.has("weight.experts.down_proj_bias"); }

Index HfWeights::shared_width() const {
  return c_.tensor("weight." + shared_prefix_ + "up_proj.weight").size(0);
}

std::string HfWeights::projection_name(const std::string& ours) const {
  if (!w123_) return ours;
  return ours == "gate_proj" ? "w1" : ours == "up_proj" ? "w3" : "w2";
}

HfWeights::Slice HfWeights::expert_slice(Index e, const std::string& projection, bool bias,
                                         const Shape& shape) const {
  const bool down = projection == "down_proj", up = projection == "up_proj";
  const std::string kind = bias ? ".bias" : ".weight";
  if (layout_ == "per_expert")
    return {"experts." + std::to_string(e) + "." + projection_name(projection) + kind, 0,
            bias ? 1 : shape[1], 1};
  const Index rows = shape[0], columns = bias ? 0 : shape[1];
  const Index size = rows * columns;  // H·I
  if (layout_ == "granitemoe" && !bias)
    return {down ? "output_linear.weight" : "input_linear.weight",
            down ? e * size : (2 * e + (up ? 1 : 0)) * size, columns, 1};
  if (layout_ == "dbrx" && !bias) {
    if (down) return {"experts.mlp.w2", e * size, 1, rows};
    return {up ? "experts.mlp.v1" : "experts.mlp.w1", e * size, columns, 1};
  }
  if (layout_ == "gpt_oss" && bias)
    return down ? Slice{"experts.down_proj_bias", e * rows, 1, 0}
                : Slice{"experts.gate_up_proj_bias", 2 * e * rows + (up ? 1 : 0), 2, 0};
  if ((layout_ == "gpt_oss" || layout_ == "llama4") && !bias) {
    if (down) return {"experts.down_proj", e * size, 1, rows};
    const bool interleaved = layout_ == "gpt_oss";  // else gate columns first
    const Index first = !up ? 0 : interleaved ? 1 : rows;
    return {"experts.gate_up_proj", 2 * e * size + first, interleaved ? 2 : 1, 2 * rows};
  }
  throw std::runtime_error("does not know layout " + layout_);
}

// `piece`: "experts.3.up_proj.weight", "gate.bias", …
HfWeights::Slice HfWeights::slice(const std::string& piece, const Shape& shape) const {
  const Slice whole{"", 0, shape.rank() > 1 ? shape[1] : 1, 1};
  const auto named = [&](const std::string& tensor) {
    Slice out = whole;
    out.tensor = tensor;
    return out;
  };
  if (starts_with(piece, "gate.")) return named(hf_gate(c_) + piece.substr(4));
  if (piece == "shared_expert_gate.weight") return named(c_.object("shared").text("gate"));
  if (starts_with(piece, "shared_experts."))
    return named(shared_prefix_ + piece.substr(std::string("shared_experts.").size()));
  if (starts_with(piece, "experts.")) {
    const std::size_t id = piece.find('.') + 1, projection = piece.find('.', id) + 1,
                      kind = piece.find('.', projection) + 1;
    return expert_slice(std::stoll(piece.substr(id)),
                        piece.substr(projection, kind - projection - 1),
                        piece.substr(kind) == "bias", shape);
  }
  throw std::runtime_error("has no weight for " + piece);
}

Values HfWeights::read(const std::string& kind, const Slice& at, const Shape& shape) const {
  const Values& all = c_.tensor(kind + at.tensor).values;
  const Index rows = shape[0], columns = shape.rank() > 1 ? shape[1] : 1;
  Values out;
  for (Index r = 0; r < rows; ++r)
    for (Index i = 0; i < columns; ++i)
      out.push_back(
          all.at(static_cast<std::size_t>(at.offset + r * at.row_stride + i * at.column_stride)));
  return out;
}

namespace {

std::string local_name(const Piece& piece) {
  return piece.name.substr(std::string("layer.").size());
}

}  // namespace

void HfWeights::load(const Backend& backend, const Parameter& p) const {
  for (const Piece& piece : p.pieces) {
    const Shape& shape = piece.value.shape();
    copy(reals(backend, piece.value.dtype(), shape,
               read("weight.", slice(local_name(piece), shape), shape)),
         piece.value);
  }
}

void HfWeights::gradients(const Parameter& p, std::map<std::string, Compared>& into) const {
  const bool met = p.grad_written;  // by some token
  const std::vector<Tensor> parts = p.split(met ? p.grad : p.value);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& shape = parts[i].shape();
    const Slice at = slice(local_name(p.pieces[i]), shape);
    Compared& both = into["grad." + at.tensor];
    const Values want = read("grad.", at, shape);
    const Values got = met ? doubles(parts[i]) : Values(want.size(), 0.0);
    both.got.insert(both.got.end(), got.begin(), got.end());
    both.want.insert(both.want.end(), want.begin(), want.end());
  }
}

}  // namespace moelab::test
