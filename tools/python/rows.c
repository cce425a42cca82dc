/* Prints _rows.py, the part of the Python package that repeats tables of the program: settings of
 * mgpt_sampler (engine/sampling.h) and fields of mgpt_info (engine/info_json.h). A row added there
 * is a field, an argument and a type in Python, too. */
#include "engine/info_json.h"
#include "engine/sampling.h"

#include <stdio.h>

#define TYPE_INT "int"
#define TYPE_REAL "float"
#define WHOLE_INT "True"
#define WHOLE_REAL "False"
#define SETTING_ROW(field, kind, name, key, argument, most, usual, help)                           \
    printf("    \"%s\": Setting(\"--%s\", 0, %.17g, %s, %.17g),\n", #field, name, (double)(most),  \
           WHOLE_##kind, (double)(usual));
#define SETTING_HELP(field, kind, name, key, argument, most, usual, help)                          \
    puts("    " #field ": " help);
#define SETTING_TYPE(field, kind, ...) puts("    " #field ": " TYPE_##kind);

#define TEXT_FIELD(field) puts("    " #field ": str");
#define INT_FIELD(field) puts("    " #field ": int");
#define FLAG_FIELD(field) puts("    " #field ": bool");
#define REAL_FIELD(field) puts("    " #field ": float");
#define COUNT_FIELD(field) puts("    " #field ": Count");

int main(void)
{
    puts("\"\"\"Tables of the program, which tools/python/rows.c printed for this build.\"\"\"\n\n"
         "from __future__ import annotations\n\n"
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
    puts("}\n\n\nclass Sampling(TypedDict, total=False):\n"
         "    \"\"\"The arguments of Sampler and Model.generate, and what the options of `mgpt "
         "generate` say:\n");
    SAMPLER_SETTINGS(SETTING_HELP)
    puts("    seed: the same seed gives the same tokens\n    \"\"\"\n");
    SAMPLER_SETTINGS(SETTING_TYPE)
    puts("    seed: int\n\n\n@dataclass(frozen=True)\nclass Info:\n"
         "    \"\"\"Facts of a model: the fields of mgpt_info in include/mgpt.h.\"\"\"\n");
    INFO_FIELDS(TEXT_FIELD, TEXT_FIELD, INT_FIELD, FLAG_FIELD, REAL_FIELD, COUNT_FIELD)
    return 0;
}
