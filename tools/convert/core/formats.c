/* Which formats each option of mgpt convert applies to: mgpt convert --help.
 *
 * It is printed from the tables that ckpt_check_options is called with, so that it always agrees
 * with them. A container whose tensors' names decide (PyTorch, safetensors) is not listed: its
 * mappings are.
 */
#include "convert/families/torch_model.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 24, MOST_COLUMNS = 98 };

static int is_container(const struct ckpt_reader *r)
{
    return r->read == torch_reader_read || r->read == safetensors_read ||
           r->read == hf_untyped_read || r->read == npz_reader_read;
}

static int begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* "microgpt JSON" is listed as the mapping microgpt, and a pickle as its mapping. */
static int is_said(const struct ckpt_reader *r, unsigned option)
{
    const struct torch_mapping *m;
    int is_pickle = r->read == microgpt_pickle_read;
    for (size_t i = 0; (m = torch_mapping_at(i)); i++)
        if (m->options & option && (is_pickle || begins_with(r->name, m->name)))
            return 1;
    return 0;
}

static void print_name(const char *name, size_t *column)
{
    size_t n = strlen(name) + 2;
    int is_first = *column == 0;
    if (!is_first && *column + n > MOST_COLUMNS) {
        printf(",\n%*s", INDENT, "");
        *column = INDENT;
        is_first = 1;
    }
    if (*column == 0)
        *column = INDENT;
    printf("%s%s", is_first ? "" : ", ", name);
    *column += n;
}

void ckpt_print_formats(void)
{
    puts("\nformats that the options apply to:");
    for (size_t i = 0; i < ckpt_n_option_rows; i++) {
        const struct torch_mapping *m;
        const unsigned option = ckpt_option_rows[i].option;
        size_t column = 0;
        printf("  %-*s", INDENT - 2, ckpt_option_rows[i].name);
        for (size_t k = 0; (m = torch_mapping_at(k)); k++)
            if (m->options & option)
                print_name(m->name, &column);
        for (size_t k = 0; k < ckpt_n_readers; k++)
            if (ckpt_readers[k].options & option && !is_container(&ckpt_readers[k]) &&
                !is_said(&ckpt_readers[k], option))
                print_name(ckpt_readers[k].name, &column);
        putchar('\n');
    }
}
