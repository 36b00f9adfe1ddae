#include "tests/support/family_pages.h"

#include "registry/listing.h"
#include "registry/parameter_info.h"

namespace moelab::testing {
namespace {

constexpr const char* kHeading = "\n## ";
constexpr const char* kEnd = "<!-- end -->\n";

std::string begin_mark(const std::string& family, const std::string& member) {
  return str("<!-- begin ", family, " ", member, ": written by target docs -->\n");
}

struct Page {
  std::string head;                          // title and what holds for the whole family
  std::map<std::string, std::string> prose;  // by member, without the written part
};

Page parsed(const std::string& text) {
  Page page;
  std::size_t at = text.find(kHeading);
  page.head = text.substr(0, at);
  while (at != std::string::npos) {
    const std::size_t next = text.find(kHeading, at + 1);
    const std::string section =
        text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    const std::size_t line = section.find('\n');
    const std::size_t end = section.find(kEnd);
    if (end != std::string::npos)
      page.prose[section.substr(3, line - 3)] = section.substr(end + std::string_view(kEnd).size());
    at = next;
  }
  return page;
}

std::string written(const std::string& family, const EntryBase& entry) {
  const std::shared_ptr<void> params = entry.default_params();
  std::string out = begin_mark(family, entry.name) + entry.summary + "\n";
  if (const std::string formula = entry.formula(params.get()); !formula.empty())
    out += "\n```\n" + formula + (formula.ends_with('\n') ? "```\n" : "\n```\n");
  const auto describe = [&](ParamVisitor& v) { entry.describe(params.get(), v); };
  return out +
         (parameters_of(entry).empty() ? "\nNo parameters.\n"
                                       : parameters_markdown(describe, "../components.md")) +
         kEnd;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \n") - begin + 1);
}

}  // namespace

const std::vector<std::string>& required_words() {
  static const std::vector<std::string> words{"Source", "When", "Costs"};
  return words;
}

std::string family_page(const FamilyRegistry& family, const std::string& old_page) {
  const Page old = parsed(old_page);
  std::string out = trimmed(old.head).empty() ? str("# ", family.family()) : trimmed(old.head);
  out += "\n";
  for (const EntryBase* entry : family.members()) {
    out += str(kHeading, entry->name, "\n\n", written(family.family(), *entry));
    const auto prose = old.prose.find(entry->name);
    if (prose != old.prose.end() && !trimmed(prose->second).empty())
      out += "\n" + trimmed(prose->second) + "\n";
  }
  return out;
}

std::map<std::string, Words> words_of(const std::string& page) {
  std::map<std::string, Words> out;
  for (const auto& [member, prose] : parsed(page).prose) {
    Words& words = out[member];
    std::size_t at = prose.find("**");
    while (at != std::string::npos) {
      const std::size_t stop = prose.find(".** ", at);
      if (stop == std::string::npos) break;
      std::size_t next = prose.find("\n**", stop);
      words[prose.substr(at + 2, stop - at - 2)] =
          trimmed(prose.substr(stop + 4, next == std::string::npos ? next : next - stop - 4));
      at = next == std::string::npos ? next : next + 1;
    }
  }
  return out;
}

std::string family_index(const std::map<std::string, std::string>& pages) {
  std::string out =
      "# Families\n\nEvery component with its source and the suites of recorded numbers of other "
      "frameworks that it is held to (`moelab_golden_tests`). Written by target docs from the "
      "pages of the families.\n\n| component | source | golden suites |\n|---|---|---|\n";
  for (const auto& [family, page] : pages)
    for (const auto& [member, words] : words_of(page)) {
      const auto word = [&words = words](const std::string& key) {
        std::string text = words.contains(key) ? words.at(key) : "";
        for (char& c : text) c = c == '\n' ? ' ' : c;
        return text;
      };
      out += str("| [", family, "](", family, ".md) ", member, " | ", word("Source"), " | ",
                 word("Golden"), " |\n");
    }
  return out;
}

}  // namespace moelab::testing
