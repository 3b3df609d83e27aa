#include "tests/bench/options.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <stdexcept>

#include "base/text.h"

namespace nomad_bridge::bench {
namespace {

int ParseNumber(const std::string& text, int least) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least) {
    throw std::invalid_argument(Cat(Quoted(text), " is not an integer of at least ", least));
  }
  return number;
}

std::vector<int> ParseNumbers(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    numbers.push_back(ParseNumber(item, 0));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void ApplyOnly(Options& options, const std::string& value) {
  using Subject = Options::Subject;
  static const std::map<std::string, Subject> kSubjects = {{"commands", Subject::kCommands},
                                                           {"policies", Subject::kPolicies},
                                                           {"data-path", Subject::kDataPath},
                                                           {"flow-tables", Subject::kFlowTables}};
  if (value == "ours" || value == "reference") {
    options.with_ours = value == "ours";
    options.with_reference = value == "reference";
    options.with_floor = options.with_ours;
  } else if (const auto found = kSubjects.find(value); found != kSubjects.end()) {
    options.subject = found->second;
  } else {
    throw std::invalid_argument(Cat("--only knows no ", Quoted(value)));
  }
}

void Apply(Options& options, const std::string& key, const std::string& value) {
  if (key == "--binary") {
    options.binary = std::filesystem::absolute(value);
  } else if (key == "--compare") {
    options.other = std::filesystem::absolute(value);
    options.with_reference = false;
    options.with_floor = false;
  } else if (key == "--json") {
    options.json = std::filesystem::absolute(value);
  } else if (key == "--reference") {
    options.reference = std::filesystem::absolute(value);
  } else if (key == "--only") {
    ApplyOnly(options, value);
  } else if (key == "--families" && value == "both") {
    options.both_families = true;
    options.with_floor = false;
  } else if (key == "--rounds") {
    options.rounds = ParseNumber(value, 1);
  } else if (key == "--alive") {
    options.alive = ParseNumbers(value);
  } else if (key == "--parallel") {
    options.parallel = ParseNumber(value, 1);
  } else if (key == "--leases") {
    options.leases = ParseNumber(value, 1);
  } else {
    throw std::invalid_argument(Cat("unknown option ", Quoted(Cat(key, ' ', value))));
  }
}

}  // namespace

int Options::RoundsWith(int living) const {
  if (rounds != 0) {
    return rounds;
  }
  return living <= 100 ? 40 : living <= 300 ? 30 : 20;
}

std::optional<Options> ParseOptions(const std::vector<std::string>& arguments) {
  Options options{.binary = NOMAD_BRIDGE_BINARY};
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    if (arguments[i] == "--help" || arguments[i] == "-h") {
      return std::nullopt;
    }
    if (i + 1 == arguments.size()) {
      throw std::invalid_argument(Cat(Quoted(arguments[i]), " needs a value"));
    }
    Apply(options, arguments[i], arguments[i + 1]);
  }
  return options;
}

}  // namespace nomad_bridge::bench
