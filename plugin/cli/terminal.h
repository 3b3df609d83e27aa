// What people see, and press: text on stdout, tables, colours, keys.
//
// Shapes     A table has a line of headers in capitals, and columns that are two spaces apart. On a
//            terminal that is narrower cells lose their ends, which "…" shows. Elsewhere nothing is
//            cut. Cells are any bytes; they become one printable line.
// Colour     only on a terminal that is not "dumb", and never with NO_COLOR or NOMAD_CLI_NO_COLOR
//            in the environment
// Errors     Print: kIo if stdout cannot be written; a reader who has gone (`| head`) is no error.
// Source     no-color.org; ioctl_tty(2); Nomad's command-line documentation.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <termios.h>

#include "base/fix.h"

namespace nomad_bridge::cli {

// Prints to stdout.
void Print(std::string_view text);

// Clears the screen and moves to its top.
constexpr std::string_view kClearScreen = "\x1b[H\x1b[J";

// While this lives, stdin's terminal gives every key at once, even ^C. Throws CannotTell if there
// is no terminal.
class KeyMode {
 public:
  KeyMode();
  KeyMode(const KeyMode&) = delete;
  KeyMode& operator=(const KeyMode&) = delete;
  ~KeyMode();

  // Returns whether a key came within `patience`, or the terminal is gone.
  [[nodiscard]] bool Await(std::chrono::milliseconds patience) const;

 private:
  termios before_{};
};

enum class Colour { kNone, kGood, kDoubtful, kBad };

// Returns "fix: nomad-bridge gc": words of a command are quoted if needed, and are otherwise
// unchanged, ready to be pasted.
[[nodiscard]] std::string ShowFix(const Fix& fix);

// Returns `text` with the colour's codes, if stdout shows colours.
[[nodiscard]] std::string Coloured(std::string_view text, Colour colour);

// Returns whether the locale's texts are UTF-8, so that all characters can be shown.
[[nodiscard]] bool ShowsUtf8();

// `text`, for a terminal: its longer lines are broken at spaces, and go on with `indent` spaces.
// Lines to be pasted (see ShowFix) stay whole, as all of it does elsewhere.
[[nodiscard]] std::string Folded(const std::string& text, std::size_t indent);

// `text`, and spaces up to `width`.
[[nodiscard]] std::string Padded(std::string_view text, std::size_t width);

// "1 failure", "2 failures", "2 policies"
[[nodiscard]] std::string Counted(std::size_t count, std::string_view what);

struct Cell {
  // A row is written as a list of texts.
  Cell(const std::string& shown, Colour shown_in = Colour::kNone);
  Cell(const char* shown) : Cell(std::string(shown)) {}

  std::string text;
  Colour colour;
};

class Table {
 public:
  // A table of rows alone, for help: indented, and never cut.
  Table() = default;
  // `cut`: headers of columns that may be cut, the widest first, but not below their headers.
  // `last`: one that is cut if that is not enough.
  explicit Table(const std::vector<std::string>& headers,
                 const std::vector<std::string_view>& cut,
                 std::string_view last = {});

  // As many cells as there are headers, or as the first row has.
  void Add(const std::vector<Cell>& row) { rows_.push_back(row); }
  [[nodiscard]] std::string Text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> Widths() const;

  bool is_help_ = true;
  std::vector<std::vector<std::size_t>> cuts_;  // columns: the first ones, then the last one
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace nomad_bridge::cli
