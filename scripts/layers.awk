# layers.awk - checks #include lines of the given files: a folder may use its own headers and those
# of folders below it.
#
#     core < plan, kernels, io, codecs < store, parquet < ops, sources < run < trace, tune, fabric
#          < cli, python

BEGIN {
    n = split("core; plan kernels io codecs; store parquet; ops sources; run; trace tune fabric; cli python", level, ";")
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

END { exit bad }
