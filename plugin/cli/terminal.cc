#include "plugin/cli/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <optional>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/names.h"
#include "base/text.h"
#include "plugin/cli/command.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::size_t kGap = 2;
// The least width of a column that is cut: enough to tell names apart.
constexpr std::size_t kNarrowest = 5;

bool ShowsColours() {
  const auto is_set = [](const char* name) {
    const char* const value = ::getenv(name);
    return value != nullptr && *value != '\0';
  };
  const auto is_dumb = [] {
    const char* const terminal = ::getenv("TERM");
    return terminal != nullptr && std::string_view(terminal) == "dumb";
  };
  static const bool kShows = ::isatty(STDOUT_FILENO) == 1 && !is_dumb() && !is_set("NO_COLOR") &&
                             !is_set("NOMAD_CLI_NO_COLOR");
  return kShows;
}

// Returns the width of the terminal on stdout; nullopt if stdout is no terminal.
std::optional<std::size_t> TerminalColumns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
             ? std::optional<std::size_t>(size.ws_col)
             : std::nullopt;
}

// Returns the width in characters: this is close enough to columns, and the same in every locale.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, BeginsCharacter));
}

// Returns whether a line has a command at its end, which a person may paste.
bool IsToPaste(std::string_view words) {
  return words.starts_with("fix: ") || words.starts_with("all ");
}

// Returns the position of the last space within `columns` and behind `indent` that words follow.
// Returns npos if `line` fits, or has no such space. Codes of colours take no column.
std::size_t FindBreak(std::string_view line, std::size_t indent, std::size_t columns) {
  std::size_t column = 0;
  std::size_t last = line.npos;
  bool is_colour = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    is_colour = is_colour || line[at] == '\x1b';
    if (!is_colour && BeginsCharacter(line[at])) {
      if (line[at] == ' ' && column > indent && column <= columns) {
        last = at;
      }
      ++column;
    }
    is_colour = is_colour && line[at] != 'm';
  }
  return column <= columns || last == line.npos || line.find_first_not_of(' ', last) == line.npos
             ? line.npos
             : last;
}

std::string Cut(std::string_view text, std::size_t width) {
  if (Width(text) <= width) {
    return std::string(text);
  }
  std::size_t at = 0;
  for (std::size_t left = width; at < text.size(); ++at) {
    if (BeginsCharacter(text[at]) && left-- <= 1) {
      break;
    }
  }
  return Cat(text.substr(0, at), "…");
}

}  // namespace

void Print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0 && errno == EPIPE) {
      return;
    }
    if (written < 0) {
      throw ErrnoError(Code::kIo, "cannot write to stdout");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::function<void(std::size_t done, std::size_t all)> ProgressOnTerminal(std::string_view what) {
  if (::isatty(STDERR_FILENO) == 0) {
    return [](std::size_t, std::size_t) {};
  }
  return [what](std::size_t done, std::size_t all) {
    constexpr std::size_t kStep = 32;
    if (done == all) {
      WriteBestEffort(STDERR_FILENO, "\r\x1b[K");
    } else if (done % kStep == 0) {
      WriteBestEffort(STDERR_FILENO, Format("\r{} {} of {}", what, done, all));
    }
  };
}

// locale(7): the first of these that is set decides.
bool ShowsUtf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = ::getenv(name);
    if (value != nullptr && *value != '\0') {
      const std::string locale = Lower(value);
      return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    }
  }
  return false;
}

KeyMode::KeyMode() {
  if (::tcgetattr(STDIN_FILENO, &before_) != 0) {
    throw CannotTell("-watch needs a terminal");
  }
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
}

KeyMode::~KeyMode() {
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

bool KeyMode::Await(std::chrono::milliseconds patience) const {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN};
  return ::poll(&input, 1, static_cast<int>(patience.count())) > 0;
}

std::string Coloured(std::string_view text, Colour colour) {
  if (colour == Colour::kNone || !ShowsColours()) {
    return std::string(text);
  }
  constexpr Names<Colour, 3> kCodes = {
      {{Colour::kGood, "\x1b[32m"}, {Colour::kDoubtful, "\x1b[33m"}, {Colour::kBad, "\x1b[31m"}}};
  return Cat(NameOf(kCodes, colour), text, "\x1b[0m");
}

std::string Folded(const std::string& text, std::size_t indent) {
  const std::optional<std::size_t> columns = TerminalColumns();
  std::string folded;
  for (std::string_view rest = text; !rest.empty();) {
    std::string line(TakeUntil('\n', rest));
    const std::string_view words =
        std::string_view(line).substr(std::min(line.find_first_not_of(' '), line.size()));
    if (!columns || IsToPaste(words)) {
      folded += Cat(line, '\n');
      continue;
    }
    constexpr std::string_view kAdvice = "advice: ";
    const std::size_t indent_here =
        words.starts_with(kAdvice) ? line.size() - words.size() + kAdvice.size() : indent;
    for (std::size_t end = FindBreak(line, indent_here, *columns); end != line.npos;
         end = FindBreak(line, indent_here, *columns)) {
      folded += Cat(line.substr(0, line.find_last_not_of(' ', end) + 1), '\n');
      line = Cat(std::string(indent_here, ' '), line.substr(line.find_first_not_of(' ', end)));
    }
    folded += Cat(line, '\n');
  }
  return folded;
}

std::string Padded(std::string_view text, std::size_t width) {
  return Cat(text, std::string(width - std::min(width, text.size()), ' '));
}

std::string Counted(std::size_t count, std::string_view what) {
  if (count != 1 && what.ends_with('y')) {
    return Cat(count, ' ', what.substr(0, what.size() - 1), "ies");
  }
  return Cat(count, ' ', what, count == 1 ? "" : "s");
}

Cell::Cell(const std::string& shown, Colour shown_in) : text(Printable(shown)), colour(shown_in) {}

void Table::AddColumn(const std::string& header, Cuts cuts) {
  rows_.resize(1);
  rows_.front().emplace_back(header);
  cuts_.push_back(cuts);
}

std::vector<std::size_t> Table::Widths() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const std::vector<Cell>& row : rows_) {
    for (std::size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], Width(row.at(column).text));
    }
  }
  const std::optional<std::size_t> columns = TerminalColumns();
  const std::size_t all = std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  std::size_t too_wide = columns ? all - std::min(all, *columns) : 0;
  std::vector<std::size_t> all_columns(cuts_.size());
  std::iota(all_columns.begin(), all_columns.end(), std::size_t{0});
  for (const Cuts cuts : {Cuts::kFirst, Cuts::kLast}) {
    // Returns the width of a column that can be narrower, or zero.
    const auto cuttable = [&](std::size_t column) {
      const std::size_t least = std::max(kNarrowest, Width(rows_.front()[column].text));
      return cuts_[column] == cuts && widths[column] > least ? widths[column] : 0;
    };
    for (; too_wide > 0 && std::ranges::any_of(all_columns, cuttable); --too_wide) {
      --widths[std::ranges::max(all_columns, {}, cuttable)];
    }
  }
  return widths;
}

std::string Table::Text() const {
  if (rows_.empty()) {
    return "";
  }
  const std::vector<std::size_t> widths = Widths();
  std::string text;
  for (const std::vector<Cell>& row : rows_) {
    std::size_t pending = cuts_.empty() ? kGap : 0;  // spaces; none at a line's end
    for (std::size_t column = 0; column < widths.size(); ++column) {
      const std::string shown = Cut(row.at(column).text, widths[column]);
      if (!shown.empty()) {
        text += Cat(std::string(pending, ' '), Coloured(shown, row.at(column).colour));
        pending = 0;
      }
      pending += widths[column] - Width(shown) + kGap;
    }
    text += '\n';
  }
  return text;
}

}  // namespace nomad_bridge::cli
