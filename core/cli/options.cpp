#include "core/cli/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>

#include "registry/error.h"
#include "registry/text.h"

namespace moelab {

namespace po = boost::program_options;

namespace {

std::map<std::string, Verb, std::less<>>& mutable_verbs() {
  static auto* table = new std::map<std::string, Verb, std::less<>>;
  return *table;
}

[[noreturn]] void usage_error(const Verb& verb, const std::string& what) {
  throw Error(ExitCode::usage, str(what, "\nsee moelab ", verb.name, " --help"));
}

po::options_description description_of(const Verb& verb) {
  po::options_description out;
  for (const Option& option : verb.options) {
    if (option.value.empty())
      out.add_options()(option.name.c_str(), po::bool_switch());
    else
      out.add_options()(option.name.c_str(), po::value<std::vector<std::string>>());
  }
  return out;
}

std::string unknown_option(const Verb& verb, std::string given) {
  given.erase(0, given.find_first_not_of('-'));
  std::vector<std::string> known{"help"};
  for (const Option& option : verb.options) known.push_back(option.name);
  const std::string near = suggest(given, known);
  std::string text = str("no option is named '--", given, "'");
  if (!near.empty()) return text + str("; did you mean '--", near, "'?");
  text += "; known:";
  for (const std::string& name : known) text += str(" --", name);
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// What a script passes when its variable is not set; never what the user means.
void refuse_empty(const Verb& verb, const std::string& option, const std::string& value) {
  if (!value.empty()) return;
  const auto at = std::ranges::find(verb.options, option, &Option::name);
  const std::string wanted = at == verb.options.end() ? "a value" : at->value;
  usage_error(verb, str("--", option, " is empty; give ", wanted, ", or leave the option out"));
}

void check_positional(const Verb& verb, const Positional& positional, const std::string& given) {
  if (given.empty()) usage_error(verb, str(positional.name, " is empty (", positional.doc, ")"));
  const auto& words = positional.words;
  if (words.empty() || std::ranges::find(words, given) != words.end()) return;
  const std::string near = suggest(given, words);
  usage_error(verb, str(positional.name, " = '", given, "' must be one of ", joined(words),
                        near.empty() ? "" : "; did you mean '", near, near.empty() ? "" : "'?"));
}

// Characters, not bytes: every byte of UTF-8 that does not go on with a character begins one.
std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

void pad_to(std::string& line, std::size_t column) {
  const std::size_t width = width_of(line);
  line.append(width < column ? column - width : 1, ' ');
}

// `left` in a column of its own, `right` wrapped beside it.
std::string two_columns(std::string left, const std::string& right) {
  constexpr std::size_t kColumn = 28, kWidth = 96;
  std::string text, line = "  " + std::move(left);
  if (width_of(line) >= kColumn) {
    text = line + "\n";
    line.clear();
  }
  pad_to(line, kColumn);
  std::size_t at = 0;
  while (at < right.size()) {
    const std::size_t end = std::min(right.find(' ', at), right.size());
    if (line.size() > kColumn && line.size() + end - at + 1 > kWidth) {
      text += line + "\n";
      line.assign(kColumn, ' ');
    }
    if (line.size() > kColumn) line += ' ';
    line.append(right, at, end - at);
    at = end + 1;
  }
  return text + line + "\n";
}

}  // namespace

const std::map<std::string, Verb, std::less<>>& verbs() { return mutable_verbs(); }

RegisterVerb::RegisterVerb(Verb verb) {
  const std::string name = verb.name;
  mutable_verbs().insert_or_assign(name, std::move(verb));
}

bool Arguments::has(std::string_view option) const { return values_.contains(option); }

std::vector<std::string> Arguments::texts(std::string_view option) const {
  const auto at = values_.find(option);
  return at == values_.end() ? std::vector<std::string>{} : at->second;
}

std::string Arguments::text(std::string_view option, const std::string& fallback) const {
  const auto at = values_.find(option);
  return at == values_.end() ? fallback : at->second.back();
}

std::int64_t Arguments::integer(std::string_view option, std::int64_t fallback,
                                std::int64_t least) const {
  if (!has(option)) return fallback;
  const std::string given = text(option);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (error != std::errc{} || end != given.data() + given.size() || value < least)
    throw Error(ExitCode::usage,
                str("--", option, " = '", given, "' must be a whole number, at least ", least));
  return value;
}

double Arguments::real(std::string_view option, double fallback) const {
  if (!has(option)) return fallback;
  const std::string given = text(option);
  double value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (error != std::errc{} || end != given.data() + given.size() || value != value || value < 0)
    throw Error(ExitCode::usage,
                str("--", option, " = '", given, "' must be a number, at least 0"));
  return value;
}

const std::string& Arguments::positional(std::size_t i) const {
  static const std::string none;
  return i < positionals_.size() ? positionals_[i] : none;
}

class OptionTable {
 public:
  static Arguments collect(const Verb& verb, const std::vector<std::string>& words) {
    using Style = po::command_line_style::style_t;
    const po::options_description description = description_of(verb);
    po::command_line_parser parser(words);
    parser.options(description);
    parser.style(Style::allow_long | Style::long_allow_adjacent | Style::long_allow_next);
    parser.allow_unregistered();
    Arguments out;
    for (const auto& option : parser.run().options) {
      if (option.unregistered && option.position_key < 0)
        usage_error(verb, unknown_option(verb, option.string_key));
      if (option.position_key >= 0) {
        if (const std::string& word = option.value.front(); word.size() > 1 && word[0] == '-')
          usage_error(verb, unknown_option(verb, word));
        out.positionals_.insert(out.positionals_.end(), option.value.begin(), option.value.end());
        continue;
      }
      for (const std::string& value : option.value) refuse_empty(verb, option.string_key, value);
      auto& values = out.values_[option.string_key];
      values.insert(values.end(), option.value.begin(), option.value.end());
    }
    return out;
  }
};

Arguments parse_arguments(const Verb& verb, const std::vector<std::string>& words) {
  Arguments out;
  try {
    out = OptionTable::collect(verb, words);
  } catch (const po::invalid_command_line_syntax& error) {
    if (error.kind() == po::invalid_syntax::empty_adjacent_parameter) {
      const std::string given = error.get_option_name();  // "--out"
      refuse_empty(verb, given.substr(std::min(given.size(), given.find_first_not_of('-'))), "");
    }
    usage_error(verb, error.what());
  } catch (const po::error& error) {
    usage_error(verb, error.what());
  }
  for (std::size_t i = 0; i < std::min(out.positionals(), verb.positionals.size()); ++i)
    check_positional(verb, verb.positionals[i], out.positional(i));
  std::size_t required = 0;
  for (const Positional& positional : verb.positionals) required += positional.required ? 1 : 0;
  if (out.positionals() < required)
    usage_error(verb, str("missing ", verb.positionals[out.positionals()].name, " (",
                          verb.positionals[out.positionals()].doc, ")"));
  if (out.positionals() > verb.positionals.size())
    usage_error(verb, str("one word too many: '", out.positional(verb.positionals.size()), "'"));
  for (const Option& option : verb.options)
    if (!option.repeated && out.texts(option.name).size() > 1)
      usage_error(verb, str("--", option.name, " was given more than once"));
  return out;
}

bool wants_help(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

std::string help_of(const Verb& verb) {
  std::string text = "moelab " + verb.name;
  for (const Positional& positional : verb.positionals)
    text += positional.required ? " " + positional.name : " [" + positional.name + "]";
  if (!verb.options.empty()) text += " [options]";
  text += "\n" + verb.summary + "\n";
  if (!verb.positionals.empty()) text += "\n";
  for (const Positional& positional : verb.positionals)
    text += two_columns(positional.name, positional.doc);
  text += "\n";
  for (const Option& option : verb.options)
    text += two_columns(str("--", option.name, option.value.empty() ? "" : " ", option.value,
                            option.repeated ? " …" : ""),
                        option.doc);
  text += two_columns("--help", "this text");
  if (!verb.notes.empty()) text += "\n" + verb.notes + "\n";
  return text;
}

std::string exit_code_table() {
  struct Line {
    ExitCode code;
    const char* meaning;
  };
  static constexpr Line kLines[] = {
      {ExitCode::ok, "success"},
      {ExitCode::internal, "a bug of moelab; the text says where"},
      {ExitCode::usage, "command line or recipe"},
      {ExitCode::data, "text, tokens, input files"},
      {ExitCode::checkpoint, "checkpoint missing, damaged or unfit"},
      {ExitCode::numerical, "loss or gradient not finite under train.non_finite = \"raise\""},
      {ExitCode::communication, "a rank failed or a collective timed out"},
      {ExitCode::resources, "memory, disk, permissions, a missing library"},
      {ExitCode::saved_on_term, "SIGTERM: state saved, the run can be resumed"},
      {ExitCode::interrupted, "Ctrl-C: state saved, the run can be resumed"},
  };
  std::string text;
  for (const Line& line : kLines)
    text += two_columns(std::to_string(static_cast<int>(line.code)), line.meaning);
  return text;
}

}  // namespace moelab
