#include "tests/plugin/repair_world.h"
