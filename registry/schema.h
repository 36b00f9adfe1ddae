// A recipe's shape as JSON Schema, for editors: completion, documentation and checks while typing.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "registry/params.h"

namespace moelab {

// JSON Schema (draft 2020-12) of everything that `describe` visits, with every member of every
// family that a component can be. It accepts what read_into() accepts, and a little more: a table
// that leaves out its `type` may be any member, since a `base` recipe may say which. Editors that
// know only older drafts read it too: no keyword beside a $ref, no allOf.
std::string schema_json(const std::function<void(ParamVisitor&)>& describe, std::string_view title);

}  // namespace moelab
