# Names and links that are made to mislead.
. "$HERE/common.inc"
photos
pipeline
name=$(printf 'photos/cat/\342\200\256gpj.exe.jpg')
echo text >"$name"
says millrace run p.json --quiet
rm "$name"
mkfifo photos/cat/fifo.jpg
says millrace run p.json --quiet
rm photos/cat/fifo.jpg
# 40 folders with two links each: 2^40 ways.
mkdir photos/cat/0
for i in $(seq 40); do
    mkdir d$i
    ln -s ../d$((i + 1)) d$i/a
    ln -s ../d$((i + 1)) d$i/b
done
mkdir d41
ln -s ../../../d1 photos/cat/0/start
says millrace run p.json --quiet 2>err
sed -E 's#(/[ab])+/#/...#' err
