/* Prints _rows.py, the part of the Python package that repeats tables of the program: settings of
 * mgpt_sampler (engine/sampling.h) and fields of mgpt_info (engine/info_json.h). A row added there
 * is a field, an argument and a type in Python, too. */
#include "choose/author.h"
#include "common/colours.h"
#include "engine/info_json.h"
#include "engine/sampling.h"

#include <stdio.h>

#define TYPE_INT "int"
#define TYPE_REAL "float"
#define WHOLE_INT "True"
#define WHOLE_REAL "False"
#define SETTING_ROW(field, kind, name, key, argument, most, usual, ...)                            \
    printf("    \"%s\": Setting(\"--%s\", 0, %.17g, %s, %.17g),\n", #field, name, (double)(most),  \
           WHOLE_##kind, (double)(usual));
#define SETTING_HELP(field, kind, name, key, argument, most, usual, group, help)                   \
    puts("    " #field ": " help);
#define SETTING_TYPE(field, kind, ...) puts("    " #field ": " TYPE_##kind);

#define EDIT_IS_NUMBERS "False"
#define EDIT_IS_TEXTS "True"
#define EDIT_TYPE_NUMBERS "float | str | tuple[float, ...]"
#define EDIT_TYPE_TEXTS "str | Iterable[str] | Mapping[str | int, float]"
#define EDIT_PYTHON(id, kind, name, argument, help, ...)                                           \
    printf("    \"%s\": Edit(\"--%s\", \"%s\", %s),\n", python_name(name), name, argument,         \
           EDIT_IS_##kind);
#define EDIT_HELP(id, kind, name, argument, help, ...)                                             \
    printf("    %s: %s %s\n", python_name(name), argument, help);
#define EDIT_TYPE(id, kind, name, ...) printf("    %s: %s\n", python_name(name), EDIT_TYPE_##kind);

/* "repeat_penalty": good until the next call. */
static const char *python_name(const char *name)
{
    static char text[32];
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof text; i++)
        text[i] = name[i];
    text[i] = 0;
    for (i = 0; text[i]; i++)
        if (text[i] == '-')
            text[i] = '_';
    return text;
}

#define TEXT_FIELD(field) puts("    " #field ": str");
#define INT_FIELD(field) puts("    " #field ": int");
#define FLAG_FIELD(field) puts("    " #field ": bool");
#define REAL_FIELD(field) puts("    " #field ": float");
#define COUNT_FIELD(field) puts("    " #field ": Count");

static void put_colours(const char *name, const unsigned *points, int n)
{
    printf("%s = (", name);
    for (int i = 0; i < n; i++)
        printf("%s0x%06x", i ? ", " : "", points[i]);
    puts(")");
}

int main(void)
{
    puts("\"\"\"Tables of the program, which tools/python/rows.c printed for this build.\"\"\"\n\n"
         "from __future__ import annotations\n\n"
         "from collections.abc import Iterable, Mapping\n"
         "from dataclasses import dataclass\n"
         "from typing import NamedTuple, TypedDict\n\n"
         "Count = int  # uint64_t\n\n\n"
         "class Setting(NamedTuple):\n"
         "    \"\"\"A number: its option of `mgpt generate`, its range, whether it is whole, its "
         "default.\"\"\"\n\n"
         "    option: str\n    least: float\n    most: float\n    whole: bool\n    default: "
         "float\n\n\n"
         "# In the order of mgpt_sampler.\nSETTINGS = {");
    SAMPLER_SETTINGS(SETTING_ROW)
    puts("}\n\n# Blue (minus) to rust (plus), and of sizes, for light pages (common/colours.h).");
    put_colours("SIGNS", (const unsigned[]){COLOURS_SIGNS_LIGHT}, 7);
    put_colours("SHARES", (const unsigned[]){COLOURS_SHARES_LIGHT}, 5);
    printf("\n# Sizes of tools/choose/author.h and heal.h.\nAUTHOR_MOST = %d\nAUTHOR_TEXT = %zu\n"
           "HEAL_BYTES = %d\n",
           (int)AUTHOR_MOST, sizeof((struct author_setting *)0)->text, (int)HEAL_BYTES);
    puts("\n\nclass Edit(NamedTuple):\n"
         "    \"\"\"An edit of logits: its option, what that takes, whether it is a list of "
         "texts.\"\"\"\n\n"
         "    option: str\n    argument: str\n    texts: bool\n\n\nEDITS = {");
    EDIT_SETTINGS(EDIT_PYTHON)
    puts("}\n\n\nclass Sampling(TypedDict, total=False):\n"
         "    \"\"\"The arguments of Sampler and Model.generate, and what the options of `mgpt "
         "generate` say:\n");
    SAMPLER_SETTINGS(SETTING_HELP)
    EDIT_SETTINGS(EDIT_HELP)
    puts("    seed: the same seed gives the same tokens\n    \"\"\"\n");
    SAMPLER_SETTINGS(SETTING_TYPE)
    EDIT_SETTINGS(EDIT_TYPE)
    puts("    seed: int\n\n\n@dataclass(frozen=True)\nclass Info:\n"
         "    \"\"\"Facts of a model: the fields of mgpt_info in include/mgpt.h.\"\"\"\n");
    INFO_FIELDS(TEXT_FIELD, TEXT_FIELD, INT_FIELD, FLAG_FIELD, REAL_FIELD, COUNT_FIELD)
    return 0;
}
