# layers.awk - checks #include lines of the given files: a folder may use its own headers and those
# of folders below it. And that what has one place in the tree is used from there.
#
#     core < span < kernels < plan, io, codecs < store, parquet, fabric < ops, sources < run < trace, tune
#          < cli, python

BEGIN {
    n = split("core; span; kernels; plan io codecs; store parquet fabric; ops sources; run; trace tune; cli python", level, ";")
    for (i = 1; i <= n; i++) {
        m = split(level[i], folder, " ")
        for (k = 1; k <= m; k++) rank[folder[k]] = i
    }
}

function wrong(why) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, why, $0
    bad = 1
}

# The folder under src/ (or cli, python) that a file belongs to, or "".
function home(path) {
    sub(/^\.\//, "", path)
    sub(/^src\//, "", path)
    sub(/\/.*/, "", path)
    return path in rank ? path : ""
}

FNR == 1 { here = home(FILENAME) }

here == "" { next }

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    there = home(quoted[2])
    if (there != "" && there != here && rank[there] >= rank[here]) wrong(here " may not use " there)
}

/^[ \t]*#[ \t]*include[ \t]*<(pthread|threads)\.h>/ {
    if (rank[here] < rank["run"]) wrong("threads begin at run/")
}

/^[ \t]*#[ \t]*include[ \t]*<(unistd|fcntl|dirent|poll|signal|sys\/[a-z_]*)\.h>/ {
    if (here == "plan" || here == "kernels") wrong(here " is pure: no system calls")
}

# jansson by itself loses bytes when memory runs out.
/json_load[a-z]*\(/ && !/mr_json_load\(/ {
    if (rank[here] < rank["cli"] && FILENAME !~ /core\/json\.c$/) wrong("read JSON with mr_json_load")
}

# Those of libc ask the locale of the program.
/(^|[^a-z_])(strn?casecmp|strcasestr|tolower|toupper)\(/ {
    wrong("compare letters with core/letters.h")
}

# One caller of sources' tables.
/dataset(\.|->)class->/ || /source->[a-z_]+\(/ {
    if (here == "run" && FILENAME !~ /run\/read\/dataset\.[ch]$/) wrong("sources are called by run/read/dataset.c")
}

END { exit bad }
