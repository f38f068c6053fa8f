# Fills the store up to the last cache; goes on where it was; says what does not fit.
. "$HERE/common.inc"
needs_store
photos
settled
pipeline
cached '"remainder": "drop", "fields": ["label"]'
says millrace cache warm c.json --threads 1 --world 2 --rank 1
says millrace cache warm c.json --threads 1
says millrace cache warm c.json --threads 1 --json
says millrace run c.json --threads 1 | grep -v digest
says millrace cache warm p.json
says millrace cache warm
says millrace cache warm c.json --rank 1
# A store in memory would be gone at the end; of two caches the one on disk is filled.
sed 's/"size": "64MB"/"size": "4MB", "tier": "memory"/' c.json >memory.json
says millrace cache warm memory.json
sed 's/"ops": \[/&{"cache": {"size": "64MB"}}, /' memory.json >both.json
says millrace cache warm both.json --threads 1
# "auto" puts in two caches and uses one: the other has no store, and that is no failure.
sed 's/{"cache": {"size": "64MB"}}, //; s/^{/&"cache": {"size": "64MB", "path": "autostore"},/' c.json >auto.json
says millrace cache warm auto.json --threads 1
says millrace cache warm auto.json --threads 1
says millrace run auto.json --threads 1 | grep -v -e digest -e stored
sed 's#"path": "autostore"#"path": "photos/cat"#' auto.json >taken.json
says millrace cache warm taken.json --threads 1
echo broken >photos/cat/broken.jpg
says millrace cache warm c.json --threads 1 | grep -v hits
cat >full.json <<END
{"source": {"synthetic": {"samples": 30, "shape": [64, 1024]}}, "ops": [{"cast": {"dtype": "uint8"}}],
 "cache": {"size": "1MB", "path": "full"}}
END
millrace cache warm full.json --threads 1 >out
echo "exit code $?"
sed 's/[0-9]* stored ([^)]*), [0-9]* refused/SOME stored, OTHERS refused/' out
sed -i 's/"samples": 30/"samples": 100000000/' full.json
for name in INT TERM; do
    env --default-signal=INT "$MILLRACE" cache warm full.json >out 2>err &
    pid=$!
    sleep 0.5
    kill -$name $pid
    wait $pid
    echo "exit code $?"
    sed -E 's/^[0-9,]+ samples/N samples/; /^  /d' out
    cat err
done
