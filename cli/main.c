/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - finds the command, fills its values, runs it, and makes sure that what it printed
 * arrived. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "help.h"
#include "options.h"
#include "text.h"

/* A standard stream that the caller closed would be given to the first file opened, and output
 * would go there. */
static void fill_standard_streams(void) {
    for (int fd = open("/dev/null", O_RDONLY | O_CLOEXEC); fd >= 0;
         fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) {
        if (fd > STDERR_FILENO) {
            close(fd);
            return;
        }
    }
}

static bool reader_is_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* The exit code, unless output was lost: success must mean that all of it was written. */
static int finish_output(int code) {
    int sys = fflush(stdout) != 0 ? errno : 0;
    if (!sys && !ferror(stdout)) {
        return code;
    }
    if (sys == EPIPE || reader_is_gone()) {
        return code == MR_EXIT_OK ? MR_EXIT_PIPE : code;
    }
    mr_error err = MR_ERROR_INIT;
    mr_fail(&err, MR_E_IO, "cannot write to standard output%s%s", sys ? ": " : "",
            sys ? strerrordesc_np(sys) : "");
    int lost = mr_error_print(&err);
    return code == MR_EXIT_OK ? lost : code;
}

static int run_command(const mr_command *command, int n, char *const *arguments) {
    mr_error err = MR_ERROR_INIT;
    bool help = false;
    void *values = calloc(1, command->values_size ? command->values_size : 1);
    mr_status status = values ? mr_options_fill(command, n, arguments, values, &help, &err)
                              : mr_fail(&err, MR_E_MEMORY, "out of memory");
    int code = MR_EXIT_OK;
    if (status != MR_OK) {
        code = mr_error_print(&err);
    } else if (help) {
        mr_help_command(stdout, command);
    } else {
        code = command->run(values);
    }
    free(values);
    return code;
}

/* --help and --version are commands, too. */
static const char *command_name(const char *argument) {
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
        return "help";
    }
    return strcmp(argument, "--version") == 0 ? "version" : argument;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        mr_help_overview(stderr);
        return MR_EXIT_USAGE;
    }
    const mr_command *command = mr_command_find(command_name(argv[1]));
    if (!command) {
        mr_error err = MR_ERROR_INIT;
        mr_help_unknown(argv[1], &err);
        return mr_error_print(&err);
    }
    return run_command(command, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
    fill_standard_streams();
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    return finish_output(dispatch(argc, argv));
}
