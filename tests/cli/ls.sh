# Lists what a path names: a file, a folder, patterns; says what is not there.
. "$HERE/common.inc"
photos
mkdir "photos/cat/.hidden"
echo no >photos/cat/.hidden/one
echo ab >"photos/$(printf 'a\033b')"
find photos -type f -exec touch -d 2026-01-31T12:00:00Z {} +
find photos/dog -type f -exec touch -d 1999-12-31T23:59:59Z {} +
says millrace ls photos
says millrace ls 'photos/*/*.png'
file=$(find photos/dog -name '*.png' | sort | head -n 1)
says millrace ls "$file" --json
says millrace ls "$PWD/photos/{cat,dog}" --json | wc -l
mkdir empty
says millrace ls empty
says millrace ls nothing
says millrace ls 'photos/*.tar'
says millrace ls 'photos/{1..2}.tar'
says millrace ls
# No server is asked: the address is refused before.
export MILLRACE_HOSTS=
if millrace ls http://127.0.0.1:1/a.tar 2>err; then echo "listed?"; fi
grep -c -e MILLRACE_HOSTS -e libcurl err
