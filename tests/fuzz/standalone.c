/* Replays a corpus folder (or files) through a fuzz target, so that every crash ever found stays an ordinary test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return -1;
    }
    static uint8_t data[8 << 20];
    size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    uint8_t *exact = malloc(n ? n : 1); /* an exact allocation, so that the sanitizer sees reads past the end */
    if (!exact)
        return -1;
    memcpy(exact, data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 0;
}

int main(int argc, char **argv) {
    int files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            if (replay_file(argv[i]))
                return 1;
            files++;
            continue;
        }
        for (struct dirent *e; (e = readdir(dir));) {
            char path[4096];
            if (e->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (replay_file(path))
                return 1;
            files++;
        }
        closedir(dir);
    }
    printf("replayed %d inputs\n", files);
    return files ? 0 : 1; /* an empty corpus tests nothing */
}
