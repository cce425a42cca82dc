/* --lora FILE[:SCALE]. See adapter_spec.h. */
#include "common/adapter_spec.h"

#include "base/error.h"
#include "common/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int adapter_spec_read(const char *text, struct adapter_spec *spec, mgpt_error *err)
{
    const struct cli_option row = {.kind = CLI_REAL, .to = &spec->scale, .min = -1e6, .max = 1e6};
    struct stat st;
    char *colon;
    *spec = (struct adapter_spec){.path = strdup(text), .scale = 1};
    if (!spec->path)
        return err_memory(err, "a name", strlen(text));
    colon = strrchr(spec->path, ':');
    if (!colon || colon == spec->path || stat(text, &st) == 0)
        return MGPT_OK;
    *colon = 0;
    if (cli_set_number(&row, colon + 1))
        return MGPT_OK;
    err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
            "--lora %.200s: there is no such file, and '%.20s' is not a scale from -1e6 to 1e6",
            text, colon + 1);
    free(spec->path);
    spec->path = NULL;
    return MGPT_EARG;
}
