/* The commands of the mgpt binary. argv[0] is the command's name; the result is the exit code. */
#ifndef MGPT_COMMANDS_H
#define MGPT_COMMANDS_H

int cmd_generate(int argc, char **argv);
int cmd_repl(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_attend(int argc, char **argv);
int cmd_lab(int argc, char **argv);
int cmd_patch(int argc, char **argv);
int cmd_score(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_imatrix(int argc, char **argv);
int cmd_bench(int argc, char **argv);

/* NULL: this build leaves it out (meson setup -Dconvert=disabled, -Dlab=disabled). */
#ifdef MGPT_NO_CONVERT
#define cmd_convert NULL
#endif
#ifdef MGPT_NO_LAB
#define cmd_lab NULL
#define cmd_patch NULL
#endif

#endif
