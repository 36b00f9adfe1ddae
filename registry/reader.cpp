// read_into(): the visitor that fills a Params struct from a Node tree. It collects every problem
// and records every value with its origin; it never throws for what a recipe says.
#include <algorithm>

#include "registry/recipe.h"

namespace moelab {
namespace {

template <class Names>
std::string joined(const Names& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : " ") + std::string(name);
  return out;
}

template <class Names>
std::string hint(std::string_view wrong, const Names& known) {
  const std::string nearest = suggest(wrong, known);
  return nearest.empty() ? std::string() : str("; did you mean '", nearest, "'?");
}

class Reader final : public ParamVisitor {
 public:
  Reader(const Node& table, const std::string& path, Report& report) : report_(report) {
    frames_.push_back({&table, path, table.source, {}, false});
  }
  void finish() { report_unknown(); }

 protected:
  void boolean(std::string_view key, bool& value, std::string_view doc) override {
    if (const Node* node = take(key)) {
      if (const bool* given = std::get_if<bool>(&node->value))
        value = *given;
      else
        wrong_type(key, *node, "true or false");
      record(key, node->text(), doc, node);
    } else {
      record(key, value ? "true" : "false", doc, nullptr);
    }
  }

  void integer(std::string_view key, std::int64_t& value, std::string_view doc,
               const Rule& rule) override {
    const Node* node = take(key);
    record(key, node ? node->text() : std::to_string(value), doc, node);
    if (!node) return;
    const std::int64_t* given = std::get_if<std::int64_t>(&node->value);
    if (!given)
      wrong_type(key, *node, "an integer");
    else if (in_range(key, *node, static_cast<double>(*given), rule))
      value = *given;
  }

  void real(std::string_view key, double& value, std::string_view doc, const Rule& rule) override {
    const Node* node = take(key);
    if (node && number(key, *node, rule)) value = *number(*node);
    record(key, node && !number(*node) ? node->text() : toml_real(node ? *number(*node) : value),
           doc, node);
  }

  void text(std::string_view key, std::string& value, std::string_view doc) override {
    const Node* node = take(key);
    record(key, node ? node->text() : toml_string(value), doc, node);
    if (!node) return;
    if (const auto* given = std::get_if<std::string>(&node->value))
      value = *given;
    else
      wrong_type(key, *node, "a string");
  }

  void choice(std::string_view key, std::size_t& at, std::span<const std::string_view> names,
              std::string_view doc) override {
    const Node* node = take(key);
    record(key, node ? node->text() : toml_string(names[at]), doc, node);
    if (!node) return;
    const auto* given = std::get_if<std::string>(&node->value);
    if (!given) return wrong_type(key, *node, "one of " + joined(names));
    const auto found = std::find(names.begin(), names.end(), *given);
    if (found == names.end() && report_.has_error_at(path_of(key))) return;
    if (found == names.end())
      return wrong(key, *node, str("is not one of ", joined(names), hint(*given, names)));
    at = static_cast<std::size_t>(found - names.begin());
  }

  void texts(std::string_view key, std::vector<std::string>& value, std::string_view doc) override {
    const Node* node = take(key);
    if (node) {
      const auto* given = std::get_if<Node::Array>(&node->value);
      std::vector<std::string> items;
      if (!given) wrong_type(key, *node, "an array of strings");
      for (const Node& item : given ? *given : Node::Array{}) {
        if (const auto* string = std::get_if<std::string>(&item.value))
          items.push_back(*string);
        else
          wrong_type(key, item, "an array of strings");
      }
      if (given) value = std::move(items);
      return record(key, node->text(), doc, node);
    }
    Node::Array items;
    for (const std::string& item : value) items.push_back({item, {}, {}});
    record(key, Node{items, {}, {}}.text(), doc, nullptr);
  }

  void reals(std::string_view key, std::vector<double>& value, std::string_view doc,
             const Rule& rule) override {
    const Node* node = take(key);
    if (node) {
      const auto* given = std::get_if<Node::Array>(&node->value);
      std::vector<double> items;
      if (!given) wrong_type(key, *node, "an array of numbers");
      for (const Node& item : given ? *given : Node::Array{})
        if (number(key, item, rule)) items.push_back(*number(item));
      if (given) value = std::move(items);
    }
    Node::Array items;
    for (const double item : value) items.push_back({item, {}, {}});
    record(key, Node{items, {}, {}}.text(), doc, node);
  }

  void slot(std::string_view key, Slot& value, std::string_view doc) override {
    read_slot(path_of(key), take(key), value, value.name(), doc);
  }

  void slots(std::string_view key, NamedSlots& value, std::string_view doc) override {
    const Node* node = take(key);
    if (!node) return;
    if (!node->table())
      return wrong_type(key, *node, str("a table of ", value.family(), " tables by label"));
    for (const auto& [label, item] : *node->table()) {
      if (!is_bare_key(label))
        problem(item.key_source, path_of(key),
                str("the label ", toml_string(label), " in '", path_of(key),
                    "' may hold only letters, digits, '_' and '-'"));
      else
        read_slot(str(path_of(key), ".", label), &item, value.add(label), label, doc);
    }
  }

  void enter(std::string_view key, std::string_view) override {
    const Node* node = take(key);
    if (node && !node->table()) {
      wrong_type(key, *node, "a table");
      node = nullptr;
    }
    push(path_of(key), node);
  }

  void leave() override {
    report_unknown();
    frames_.pop_back();
  }

 private:
  struct Frame {
    const Node* table = nullptr;  // null: nothing given, all defaults
    std::string path;
    Source place;  // of the nearest table that was given
    std::vector<std::string> known;
    bool component = false;  // may be named by a plain string, kept under kNameKey
  };

  std::string path_of(std::string_view key) const {
    const std::string& path = frames_.back().path;
    return path.empty() ? std::string(key) : str(path, ".", key);
  }

  const Node* take(std::string_view key) {
    Frame& frame = frames_.back();
    frame.known.emplace_back(key);
    return frame.table ? frame.table->find(key) : nullptr;
  }

  void push(const std::string& path, const Node* table) {
    frames_.push_back({table, path, table ? table->source : frames_.back().place, {}, false});
  }

  void record(std::string_view key, std::string value, std::string_view doc, const Node* node) {
    Source source = node ? node->source : frames_.back().place;
    if (!node) source.origin = Source::Origin::fallback;
    report_.resolved({path_of(key), std::move(value), std::string(doc), std::move(source)});
  }

  void problem(const Source& source, std::string path, std::string text) {
    report_.problem({Problem::Severity::error, source, std::move(text), std::move(path)});
  }

  void wrong(std::string_view key, const Node& node, const std::string& rule) {
    problem(node.source, path_of(key), str(path_of(key), " = ", shown(node), " ", rule));
  }
  static std::string shown(const Node& node) {
    std::string text = node.text();
    if (text.size() <= 60) return text;
    std::size_t end = 57;  // not inside a UTF-8 character
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end) + "...";
  }
  void wrong_type(std::string_view key, const Node& node, std::string_view expected) {
    wrong(key, node, str("must be ", expected, ", not ", node.kind()));
  }

  bool in_range(std::string_view key, const Node& node, double value, const Rule& rule) {
    if (rule.holds(value)) return true;
    const std::string text = rule.text();
    wrong(key, node, text.empty() ? "must be a finite number" : "must be " + text);
    return false;
  }

  static std::optional<double> number(const Node& node) {
    if (const auto* whole = std::get_if<std::int64_t>(&node.value))
      return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&node.value)) return *real;
    return {};
  }
  bool number(std::string_view key, const Node& node, const Rule& rule) {
    const std::optional<double> value = number(node);
    if (value) return in_range(key, node, *value, rule);
    wrong_type(key, node, "a number");
    return false;
  }

  // `node` is the component's table, its bare name, or null for the default `fallback`.
  void read_slot(const std::string& path, const Node* node, Slot& slot, std::string_view fallback,
                 std::string_view doc) {
    slot.set_path(path);
    const Node* table = node && node->table() ? node : nullptr;
    const Node* named = table ? table->find(slot.selector()) : node;
    if (table && !named) named = table->find(kNameKey);
    push(path, table);
    frames_.back().component = true;
    frames_.back().known.emplace_back(slot.selector());
    const auto* name = named ? std::get_if<std::string>(&named->value) : nullptr;
    const std::string wanted = name ? *name : std::string(fallback);
    record(slot.selector(), toml_string(wanted), doc, named);
    if (named && !name)
      wrong_type(slot.selector(), *named, table ? "a string" : "a table or a name");
    else if (!slot.choose(wanted))
      report_no_member(path, slot, wanted, named);
    else {
      slot.describe(*this);
      report_unknown();
    }
    frames_.pop_back();
  }

  void report_no_member(const std::string& path, const Slot& slot, const std::string& wanted,
                        const Node* named) {
    if (report_.has_error_at(str(path, ".", slot.selector()))) return;
    std::vector<std::string> known;
    for (const EntryBase* entry : slot.known()) known.push_back(entry->name);
    std::string text = wanted.empty() ? str(path, " needs a '", slot.selector(), "'")
                                      : str(path, ".", slot.selector(), " = ", toml_string(wanted),
                                            " names no ", slot.family(), hint(wanted, known));
    problem(named ? named->source : frames_.back().place, str(path, ".", slot.selector()),
            str(text, " (known: ", joined(known), ")"));
  }

  void report_unknown() {
    const Frame& frame = frames_.back();
    if (!frame.table) return;
    for (const auto& [key, node] : *frame.table->table()) {
      if (std::find(frame.known.begin(), frame.known.end(), key) != frame.known.end()) continue;
      if (key == kNameKey) {
        if (!frame.component)
          problem(node.source, frame.path,
                  str(frame.path, " = ", shown(node), " must be a table, not ", node.kind()));
        continue;
      }
      problem(node.key_source, path_of(key),
              str("unknown key '", path_of(key), "'", hint(key, frame.known),
                  " (known: ", joined(frame.known), ")"));
    }
  }
  Report& report_;
  std::vector<Frame> frames_;
};

}  // namespace

void read_into(const Node& table, const std::string& path,
               const std::function<void(ParamVisitor&)>& describe, Report& report) {
  Reader reader(table, path, report);
  describe(reader);
  reader.finish();
}

}  // namespace moelab
