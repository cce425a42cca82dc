/* The fields of mgpt_info as members of a JSON object. See info_json.h. */
#include "engine/info_json.h"

#include <stddef.h>

/* ---- the table is that of mgpt.h ---- */

#define TEXT_FIELD(field) const char *field;
#define INT_FIELD(field) int32_t field;
#define REAL_FIELD(field) float field;
#define COUNT_FIELD(field) uint64_t field;
struct info_of_table {
    INFO_FIELDS(TEXT_FIELD, TEXT_FIELD, INT_FIELD, INT_FIELD, REAL_FIELD, COUNT_FIELD)
};
#define AT_PLACE(field)                                                                            \
    _Static_assert(offsetof(struct info_of_table, field) == offsetof(mgpt_info, field),            \
                   "INFO_FIELDS: " #field " is elsewhere in mgpt.h");                              \
    _Static_assert(_Generic(&((struct info_of_table *)0)->field,                                   \
                            __typeof__(&((mgpt_info *)0)->field) : 1, default : 0),                \
                   "INFO_FIELDS: " #field " has another type in mgpt.h");
INFO_FIELDS(AT_PLACE, AT_PLACE, AT_PLACE, AT_PLACE, AT_PLACE, AT_PLACE)
/* Padding could hide a missing field of 4 bytes, so that there must be none. */
#define PLUS_BYTES(field) +sizeof(((mgpt_info *)0)->field)
#define TABLE_BYTES                                                                                \
    INFO_FIELDS(PLUS_BYTES, PLUS_BYTES, PLUS_BYTES, PLUS_BYTES, PLUS_BYTES, PLUS_BYTES)
_Static_assert(0 TABLE_BYTES == sizeof(mgpt_info),
               "INFO_FIELDS: a field of mgpt.h is missing, or mgpt_info has padding");

/* ---- JSON ---- */

static const struct info_field {
    const char *name;
    unsigned kind;
    size_t at;
} info_fields[] = {
#define NO_ROW(field)
#define INFO_ROW(kind, field) {#field, kind, offsetof(mgpt_info, field)},
#define TEXT_ROW(field) INFO_ROW(INFO_TEXTS, field)
#define INT_ROW(field) INFO_ROW(INFO_INTS, field)
#define FLAG_ROW(field) INFO_ROW(INFO_FLAGS, field)
#define REAL_ROW(field) INFO_ROW(INFO_REALS, field)
#define COUNT_ROW(field) INFO_ROW(INFO_COUNTS, field)
    INFO_FIELDS(NO_ROW, TEXT_ROW, INT_ROW, FLAG_ROW, REAL_ROW, COUNT_ROW)};

void info_put(struct jtext *object, const mgpt_info *info, unsigned kinds, const char *real)
{
    for (size_t i = 0; i < sizeof info_fields / sizeof *info_fields; i++) {
        const struct info_field *f = &info_fields[i];
        const void *at = (const char *)info + f->at;
        if (!(f->kind & kinds))
            continue;
        jtext_add(object, "s:", f->name);
        if (f->kind == INFO_TEXTS)
            jtext_add(object, "s", *(const char *const *)at);
        else if (f->kind == INFO_REALS)
            jtext_add(object, real, (double)*(const float *)at);
        else if (f->kind == INFO_COUNTS)
            jtext_add(object, "I", (int64_t) * (const uint64_t *)at);
        else
            jtext_add(object, f->kind == INFO_FLAGS ? "b" : "i", (int)*(const int32_t *)at);
    }
}
