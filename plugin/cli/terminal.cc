#include "plugin/cli/terminal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <numeric>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "plugin/cli/command.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::size_t kGap = 2;
// The least width of the column that is cut: enough to tell jobs apart.
constexpr std::size_t kNarrowest = 8;

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

// In characters: close enough to columns, and the same in every locale.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, BeginsCharacter));
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

std::string ShowFix(const Fix& fix) {
  return fix.command.empty() ? Printable(fix.Line()) : fix.Line();
}

std::string Coloured(std::string_view text, Colour colour) {
  if (colour == Colour::kNone || !ShowsColours()) {
    return std::string(text);
  }
  constexpr std::array<std::string_view, 4> kCodes = {"", "\x1b[32m", "\x1b[33m", "\x1b[31m"};
  return Cat(kCodes.at(static_cast<std::size_t>(colour)), text, "\x1b[0m");
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

Table::Table(const std::vector<std::string>& headers, std::string_view cut)
    : is_help_(false),
      cut_(static_cast<std::size_t>(std::ranges::find(headers, cut) - headers.begin())),
      rows_({{headers.begin(), headers.end()}}) {}

std::vector<std::size_t> Table::Widths() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const std::vector<Cell>& row : rows_) {
    for (std::size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], Width(row.at(column).text));
    }
  }
  winsize size{};
  if (cut_ < widths.size() && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    const std::size_t all =
        std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
    std::size_t& width = widths[cut_];
    const std::size_t too_wide = all - std::min<std::size_t>(all, size.ws_col);
    width = std::max(std::min(width, kNarrowest), width - std::min(width, too_wide));
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
    std::size_t pending = is_help_ ? kGap : 0;  // spaces; none at a line's end
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
