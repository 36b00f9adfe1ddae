// moelab trace: what a run recorded of its routing.
#include <algorithm>
#include <map>
#include <ostream>

#include "core/cli/options.h"
#include "core/telemetry/progress.h"
#include "core/train/routing_trace.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

// Which places of a trace are shown; −1: all.
struct Choice {
  std::string phase;
  Index step = -1, micro_batch = -1, layer = -1, token = -1;
  bool fits(const TraceFile& file) const {
    return (phase.empty() || phase == phase_name(file.phase)) && (step < 0 || step == file.step);
  }
};

Choice choice_of(const Arguments& arguments) {
  Choice choice;
  choice.phase = arguments.text("phase");
  if (!choice.phase.empty() && choice.phase != "train" && choice.phase != "eval" &&
      choice.phase != "generate")
    throw Error(ExitCode::usage,
                "--phase '" + choice.phase + "' must be one of: \"train\", \"eval\", \"generate\"");
  choice.step = arguments.integer("step", -1, 0);
  choice.micro_batch = arguments.integer("micro-batch", -1, 0);
  choice.layer = arguments.integer("layer", -1, 0);
  choice.token = arguments.integer("token", -1, 0);
  return choice;
}

const char* fate_text(PairFate fate) {
  return fate == PairFate::kept ? "kept" : fate == PairFate::absent ? "absent" : "capacity";
}

bool wanted(Index chosen, Index here) { return chosen < 0 || chosen == here; }

// Calls visit(micro-batch number, batch, layer) for what is chosen.
template <class F>
void each_layer(const RoutingTrace& trace, const Choice& choice, const F& visit) {
  for (std::size_t m = 0; m < trace.batches.size(); ++m)
    for (const TracedLayer& layer : trace.batches[m].layers)
      if (wanted(choice.micro_batch, static_cast<Index>(m)) && wanted(choice.layer, layer.layer))
        visit(static_cast<Index>(m), trace.batches[m], layer);
}

void print_pairs(const RoutingTrace& trace, const Choice& choice, std::ostream& out) {
  each_layer(trace, choice, [&](Index m, const TracedBatch& batch, const TracedLayer& layer) {
    for (std::size_t t = 0; t < batch.token_T.size(); ++t) {
      if (!wanted(choice.token, static_cast<Index>(t)) || batch.valid_T[t] == 0) continue;
      for (Index p = layer.offset_T1[t]; p < layer.offset_T1[t + 1]; ++p) {
        const auto at = static_cast<std::size_t>(p);
        if (layer.expert_P[at] < 0) continue;
        out << phase_name(trace.phase) << '\t' << trace.step << '\t' << m << '\t' << layer.layer
            << '\t' << t << '\t' << batch.token_T[t] << '\t' << layer.expert_P[at] << '\t'
            << exact(layer.weight_P[at]) << '\t' << fate_text(layer.fate_P[at]) << '\n';
      }
    }
  });
}

struct LayerTotals {
  Index tokens = 0, kept = 0, dropped = 0;
  std::vector<double> count_E;
};

void print_summary(const RoutingTrace& trace, const Choice& choice, std::ostream& out) {
  std::map<Index, LayerTotals> totals;
  each_layer(trace, choice, [&](Index, const TracedBatch& batch, const TracedLayer& layer) {
    LayerTotals& sum = totals[layer.layer];
    sum.tokens += std::ranges::count_if(batch.valid_T, [](auto valid) { return valid != 0; });
    sum.count_E.resize(static_cast<std::size_t>(layer.experts));
    for (std::size_t p = 0; p < layer.expert_P.size(); ++p) {
      if (layer.expert_P[p] < 0) continue;
      ++sum.count_E[static_cast<std::size_t>(layer.expert_P[p])];
      ++(layer.fate_P[p] == PairFate::kept ? sum.kept : sum.dropped);
    }
  });
  for (const auto& [layer, sum] : totals) {
    const LoadSummary load = summarize(sum.count_E);
    out << phase_name(trace.phase) << '\t' << trace.step << '\t' << trace.batches.size() << '\t'
        << layer << '\t' << sum.tokens << '\t' << sum.kept + sum.dropped << '\t' << sum.dropped
        << '\t' << exact(load.max_over_mean) << '\t' << load.dead << '\n';
  }
}

int run(const Arguments& arguments, const Streams& streams) {
  const Choice choice = choice_of(arguments);
  const bool pairs = arguments.has("pairs");
  streams.out << (pairs ? "phase\tstep\tmicro_batch\tlayer\ttoken\tid\texpert\tweight\tfate\n"
                        : "phase\tstep\tmicro_batches\tlayer\ttokens\tpairs\tdropped\t"
                          "max_over_mean\tdead_experts\n");
  bool found = false;
  for (const TraceFile& file : find_traces(arguments.positional(0))) {
    if (!choice.fits(file)) continue;
    found = true;
    const RoutingTrace trace = read_trace(file.path);
    (pairs ? print_pairs : print_summary)(trace, choice, streams.out);
  }
  if (!found)
    throw Error(ExitCode::data, str(arguments.positional(0),
                                    " holds no routing of that phase and step; without --phase and "
                                    "--step everything recorded is shown"));
  return 0;
}

const RegisterVerb registered{
    {.name = "trace",
     .summary = "show the routing that a run recorded",
     .positionals = {{"RUN", "a run's folder, its trace folder or a file of it"}},
     .options = {{"phase", "NAME", "only train, eval or generate"},
                 {"step", "N", "only this step"},
                 {"micro-batch", "M",
                  "only this micro-batch, from 0 (evaluations: batch; text: call)"},
                 {"layer", "L", "only this block, from 0"},
                 {"token", "T", "with --pairs: only this token of its micro-batch, from 0"},
                 {"pairs", "", "every (token, expert) pair; else totals by layer"}},
     .notes = "Tab-separated. Routing is recorded by trace.steps of a recipe, and by eval and "
              "generate with --trace.\n"
              "Example: moelab trace runs/mine --phase train --step 1 --layer 2 --pairs",
     .run = run}};

}  // namespace
}  // namespace moelab
