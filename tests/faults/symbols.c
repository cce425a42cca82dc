/* Tests: the names of functions, of this program's own also the static ones. See symbols.h. */
#define _GNU_SOURCE /* dladdr */
#include "faults/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The program's file as the linker left it, mapped once. */
static const uint8_t *program(void)
{
    static const uint8_t *bytes;
    struct stat st;
    int fd = bytes ? -1 : open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        bytes = p == MAP_FAILED ? NULL : p;
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

/* The function that this place of the program is in. */
static const char *own_name(uint64_t at)
{
    const uint8_t *bytes = program();
    const Elf64_Ehdr *head = (const void *)bytes;
    if (!bytes)
        return NULL;
    const Elf64_Shdr *sections = (const void *)(bytes + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *all = (const void *)(bytes + sections[i].sh_offset);
        const char *names = (const char *)bytes + sections[sections[i].sh_link].sh_offset;
        for (size_t k = 0; k < sections[i].sh_size / sizeof *all; k++)
            if (ELF64_ST_TYPE(all[k].st_info) == STT_FUNC && at >= all[k].st_value &&
                at - all[k].st_value < all[k].st_size)
                return names + all[k].st_name;
    }
    return NULL;
}

const char *symbol_name(const void *address)
{
    Dl_info own, info;
    const char *slash, *name = NULL;
    if (!dladdr((void *)(uintptr_t)symbol_name, &own) || !dladdr((void *)(uintptr_t)address, &info))
        return "?";
    if (info.dli_fbase == own.dli_fbase)
        name = own_name((uint64_t)((const char *)address - (const char *)own.dli_fbase));
    else if ((slash = strrchr(info.dli_fname, '/')))
        name = slash + 1;
    return name ? name : "?";
}
