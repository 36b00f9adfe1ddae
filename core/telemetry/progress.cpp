#include "core/telemetry/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string_view>

#include "registry/text.h"

namespace moelab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kInPlace{100}, kPlain{2000};  // least time between prints

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, printable(values)...);
  return text;
}

}  // namespace

ProgressStyle style_of_stderr() {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  ProgressStyle style;
  style.terminal = ::isatty(STDERR_FILENO) == 1 && term && std::string_view(term) != "dumb";
  style.color = style.terminal && (!no_color || *no_color == '\0');
  return style;
}

std::string duration_text(double seconds) {
  const long long whole = std::llround(std::max(0.0, seconds));
  if (whole >= 3600)
    return formatted("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return formatted("%lld:%02lld", whole / 60, whole % 60);
}

std::string progress_line(const ProgressState& state, bool color) {
  std::string out = formatted("step %lld/%lld  loss %s%.4f%s  %.0f tokens/s  ETA ",
                              static_cast<long long>(state.step),
                              static_cast<long long>(state.steps), color ? "\033[1m" : "",
                              state.loss, color ? "\033[0m" : "", state.tokens_per_second);
  out += duration_text(state.seconds_left);
  if (state.balance > 0) out += formatted("  load max/mean %.2f", state.balance);
  return out;
}

void Progress::update(const ProgressState& state) {
  state_ = state;
  if (style_.quiet) return;
  const bool first = printed_step_ < 0;
  const bool due = style_.terminal || state.step - printed_step_ >= style_.every;
  if (first || (due && Clock::now() - printed_ >= (style_.terminal ? kInPlace : kPlain))) print();
}

void Progress::print() {
  const std::string line = progress_line(state_, style_.color);
  if (style_.terminal)
    out_ << '\r' << line << "\033[K" << std::flush;
  else
    out_ << line << std::endl;
  open_ = style_.terminal;
  printed_ = Clock::now();
  printed_step_ = state_.step;
}

void Progress::note(const std::string& text) {
  if (style_.quiet) return;
  if (open_) out_ << "\r\033[K";
  out_ << text << (text.ends_with('\n') ? "" : "\n") << std::flush;
  if (open_) print();
}

void Progress::finish() {
  if (style_.quiet || state_.step == 0) return;
  if (style_.terminal || printed_step_ != state_.step) print();
  if (open_) out_ << std::endl;
  open_ = false;
}

LoadSummary summarize(const std::vector<double>& tokens_E) {
  LoadSummary out;
  double sum = 0, most = 0, square = 0;
  for (const double n : tokens_E) {
    sum += n;
    most = std::max(most, n);
    out.dead += n == 0;
  }
  const double mean = sum / static_cast<double>(std::max<std::size_t>(1, tokens_E.size()));
  if (mean == 0) return out;
  for (const double n : tokens_E) square += (n - mean) * (n - mean);
  out.cv = std::sqrt(square / static_cast<double>(tokens_E.size())) / mean;
  out.max_over_mean = most / mean;
  return out;
}

std::string load_picture(const std::vector<LayerLoad>& layers) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  for (const LayerLoad& layer : layers) {
    double sum = 0;
    for (const double n : layer.tokens_E) sum += n;
    const double mean = sum / static_cast<double>(std::max<std::size_t>(1, layer.tokens_E.size()));
    out += formatted("  layer %2lld  ", static_cast<long long>(layer.layer));
    for (const double n : layer.tokens_E) {
      const auto height = static_cast<int>(std::lround(4 * n / std::max(mean, 1e-300)));
      out += n == 0 ? "·" : kBlocks[std::clamp(height, 1, 8) - 1];
    }
    const LoadSummary load = summarize(layer.tokens_E);
    out += formatted("  max/mean %.2f  cv %.2f  dead %lld\n", load.max_over_mean, load.cv,
                     static_cast<long long>(load.dead));
  }
  return out;
}

}  // namespace moelab
