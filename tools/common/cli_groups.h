/* Options of --help by what they are for. */
#ifndef MGPT_CLI_GROUPS_H
#define MGPT_CLI_GROUPS_H

#include "common/cli.h"

/* Calls `print` for each option: of a command that draws text in groups, each after a line " TITLE:",
 * the most used first; else in the order of its rows. */
void cli_each_grouped(const struct cli_command *command, void print(const struct cli_option *));

#endif
