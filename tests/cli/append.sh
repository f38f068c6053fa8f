# Files and lines become entries of a stream, which a pipeline reads.
. "$HERE/common.inc"
printf 'one\n\nthree' | says millrace append clicks --lines --label 2
printf 'first' >a.txt
printf 'second' >b.txt
says millrace append clicks a.txt b.txt
ls *.txt | says millrace append clicks --list - --partition 7
ls clicks
cat >p.json <<END
{"source": {"segments": {"path": "clicks"}}, "batch": 3, "shuffle": false, "fields": ["value", "label", "key"]}
END
says millrace run --quiet p.json
says millrace append clicks missing.txt
says millrace append
mkdir images && echo >images/1.jpg
says millrace append images a.txt
ls images
mkdir new new/lost+found && echo 1 >new/.hidden
says millrace append new a.txt
mkdir empty
sed 's/clicks/empty/' p.json >q.json
says millrace run --quiet q.json
printf damage | dd of=clicks/00000-0000000000000000000.seg bs=1 seek=130 conv=notrunc 2>/dev/null
says millrace run --quiet p.json
