// The terminal: text on stdout, tables, colours, and keys that are pressed.
//
// Shapes     A table has a line of headers in capitals, and columns that are two spaces apart. If
//            the terminal is too narrow, cells are cut, and end with "…". If stdout is no terminal,
//            nothing is cut. A cell may have any bytes; they are shown as one printable line.
// Colour     only on a terminal that is not "dumb", and never with NO_COLOR or NOMAD_CLI_NO_COLOR
//            in the environment
// Errors     Print: kIo if stdout cannot be written. A reader that is gone (`| head`) is no error.
// Source     no-color.org; ioctl_tty(2); Nomad's command-line documentation.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <termios.h>

namespace nomad_bridge::cli {

// Prints to stdout.
void Print(std::string_view text);

// Clears the screen and moves to its top.
constexpr std::string_view kClearScreen = "\x1b[H\x1b[J";

// While a KeyMode exists, the terminal on stdin passes on every key at once, even ^C. Throws
// CannotTell if stdin is no terminal.
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

// Returns a function that shows a counter, "gc 32 of 500", on stderr until all is done, if stderr
// is a terminal. Keeps `what`.
[[nodiscard]] std::function<void(std::size_t done, std::size_t all)> ProgressOnTerminal(
    std::string_view what);

enum class Colour { kNone, kGood, kDoubtful, kBad };

// Returns `text` with the colour's codes, if stdout shows colours.
[[nodiscard]] std::string Coloured(std::string_view text, Colour colour);

// Returns whether the locale's texts are UTF-8, so that all characters can be shown.
[[nodiscard]] bool ShowsUtf8();

// Returns `text` with its long lines broken at spaces, to fit the terminal; their continuations
// begin with `indent` spaces. Commands to be pasted ("fix: ...") stay whole. If stdout is no
// terminal, all lines stay whole.
[[nodiscard]] std::string Folded(const std::string& text, std::size_t indent);

// Returns `text`, filled with spaces up to `width`.
[[nodiscard]] std::string Padded(std::string_view text, std::size_t width);

// Returns "1 failure", "2 failures", "2 policies".
[[nodiscard]] std::string Counted(std::size_t count, std::string_view what);

struct Cell {
  // Implicit, so that a row can be written as a list of texts.
  Cell(const std::string& shown, Colour shown_in = Colour::kNone);
  Cell(const char* shown) : Cell(std::string(shown)) {}

  std::string text;
  Colour colour;
};

// When a terminal is too narrow: which columns are cut, but not below the width of their headers.
// The widest column is cut first.
enum class Cuts { kNever, kFirst, kLast };  // kLast: only if it is not enough to cut the others

// Without columns, it is a table for help: indented, without headers, and never cut.
class Table {
 public:
  // REQUIRES: there are no rows yet.
  void AddColumn(const std::string& header, Cuts cuts);
  // REQUIRES: `row` has as many cells as there are columns, or as the first row has.
  void Add(const std::vector<Cell>& row) { rows_.push_back(row); }
  [[nodiscard]] std::string Text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> Widths() const;

  std::vector<Cuts> cuts_;               // of each column
  std::vector<std::vector<Cell>> rows_;  // the headers first
};

}  // namespace nomad_bridge::cli
