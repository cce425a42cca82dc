/* The options of mgpt convert. See options.h. */
#include "convert/core/options.h"

#define INITIAL_INT(field, least) .field = (least) > 0 ? 0 : -1,
#define INITIAL_REAL(field, least) .field = (least) > 0 ? 0 : -1,
#define INITIAL_TEXT(field, least)
#define INITIAL_CHOICE(field, least)
#define INITIAL_FLAG(field, least)
#define INITIAL(bit, id, kind, field, group, name, argument, least, ...)                           \
    INITIAL_##kind(field, least)
const struct ckpt_options ckpt_no_options = {CKPT_OPTIONS(INITIAL).given = 0};

#define ROW(bit, id, kind, field, group, name, argument, least, most, help)                        \
    {OPT_##id, CKPT_##kind, offsetof(struct ckpt_options, field), name, argument, least, most},
const struct ckpt_option_row ckpt_option_rows[] = {CKPT_OPTIONS(ROW)};
const size_t ckpt_n_option_rows = sizeof ckpt_option_rows / sizeof *ckpt_option_rows;

const struct ckpt_option_row *ckpt_option_row(unsigned option)
{
    for (size_t i = 0; i < ckpt_n_option_rows; i++)
        if (ckpt_option_rows[i].option & option)
            return &ckpt_option_rows[i];
    return NULL;
}

const char *ckpt_option_name(enum ckpt_option option)
{
    const struct ckpt_option_row *row = ckpt_option_row(option);
    return row ? row->name : "?";
}

void *ckpt_option_field(const struct ckpt_option_row *row, struct ckpt_options *o)
{
    return (char *)o + row->at;
}

static int is_given(const struct ckpt_option_row *row, struct ckpt_options *o)
{
    const void *field = ckpt_option_field(row, o);
    switch (row->kind) {
    case CKPT_INT:
        return *(const int32_t *)field >= row->least;
    case CKPT_REAL:
        return *(const double *)field >= row->least;
    case CKPT_FLAG:
        return *(const int *)field;
    default:
        return *(const char *const *)field != NULL;
    }
}

void ckpt_mark_given(struct ckpt_options *o)
{
    for (size_t i = 0; i < ckpt_n_option_rows; i++)
        if (is_given(&ckpt_option_rows[i], o))
            o->given |= ckpt_option_rows[i].option;
}
