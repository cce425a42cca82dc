/* Tests: data files. See unit.h. */
#include "support/unit.h"

const char *unit_path(const char *name)
{
    static char path[1024];
    const char *root = getenv("MGPT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/%s", root ? root : ".", name);
    return path;
}

size_t unit_rows(const char *name, void row(char *line, void *user), void *user)
{
    char line[8192];
    size_t n = 0;
    FILE *f = fopen(unit_path(name), "r");
    if (!f)
        fail_msg("%s: cannot open", name);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#' || !line[0])
            continue;
        row(line, user);
        n++;
    }
    fclose(f);
    return n;
}
