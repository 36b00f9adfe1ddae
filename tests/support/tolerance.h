// The one table of tolerances; the contracts of core/lab use it as well, so it lives there.
#pragma once
#include "core/lab/tolerance.h"  // IWYU pragma: export
