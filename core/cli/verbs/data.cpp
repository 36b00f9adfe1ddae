// moelab data: what a recipe's text is, and its two parts as files.
#include <cstdio>
#include <memory>
#include <ostream>

#include "core/cli/recipe_arguments.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

std::unique_ptr<Dataset> open_dataset(const RunConfig& config) {
  const std::shared_ptr<const Tokenizer> tokenizer = config.data.tokenizer.make({});
  return config.data.dataset.make({.length = config.data.sequence_length,
                                   .batch = config.train.batch,
                                   .seed = config.data_seed(),
                                   .tokenizer = tokenizer});
}

void inspect(const RunConfig& config, const Dataset& data, std::ostream& out) {
  out << data.describe();
  for (const Split split : {Split::train, Split::heldout})
    out << (split == Split::train ? "train:    " : "held out: ") << data.bytes(split) << " bytes, "
        << data.tokens(split) << " tokens\n";
  const std::int64_t rows = data.epoch_rows(), length = config.data.sequence_length;
  out << "held-out rows of " << length << ": " << data.heldout_rows() << "\n"
      << "a step shows " << config.train.batch << " rows of " << length;
  if (rows > 0) {
    const std::int64_t tenths = rows * 10 / config.train.batch;
    out << "; an epoch is " << rows << " rows, " << exact(static_cast<double>(tenths) / 10.0)
        << " steps";
  }
  out << "\nfingerprint: " << std::hex << data.fingerprint() << std::dec << "\n";
}

Split split_of(const std::string& name) {
  if (name == "train") return Split::train;
  if (name == "heldout") return Split::heldout;
  throw Error(ExitCode::usage, str("--split = '", name, "' must be one of train heldout"));
}

void write_file(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool written = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if ((file && std::fclose(file) != 0) || !written)
    throw Error(ExitCode::resources, str("cannot write '", path, "'; check folder and free space"));
}

int run(const Arguments& arguments, const Streams& streams) {
  Report report;
  const RunConfig config = load_recipe_argument(arguments, streams, report, 1);
  const Split split = split_of(arguments.text("split", "heldout"));
  const std::unique_ptr<Dataset> data = open_dataset(config);
  if (arguments.positional(0) == "inspect")
    inspect(config, *data, streams.out);
  else if (arguments.has("out"))
    write_file(arguments.text("out"), data->raw(split));
  else
    streams.out << data->raw(split);
  return 0;
}

const RegisterVerb registered{
    {.name = "data",
     .summary = "inspect a recipe's text, or write one of its parts",
     .positionals = {{"ACTION",
                      "inspect: files, sizes, rows; export: the bytes of --split",
                      true,
                      {"inspect", "export"}},
                     recipe_positional()},
     .options = {{"split", "S", "export: heldout (default) or train"},
                 {"out", "FILE", "export: where to; default: standard output"},
                 set_option()},
     .notes =
         "Example: moelab data export recipes/quickstart.toml --split heldout | xz -9e | wc -c",
     .run = run}};

}  // namespace
}  // namespace moelab
