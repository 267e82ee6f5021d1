#pragma once
// What is wrong with a command line that cannot be parsed: unknown verbs and options get the nearest known one.

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rehearse {

/// No option or argument of any verb takes an empty text: such a path would be the working folder, such a name none.
void refuse_empty_values(CLI::App& app);

/// One line: `unknown verb "simulat"; did you mean "simulate"?; see rehearse --help`.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);

}  // namespace rehearse
