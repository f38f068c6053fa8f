# A reader that goes away is no crash: exit code 141, nothing on stderr, and the state is saved.
. "$HERE/common.inc"
photos
pipeline
mkfifo pipe
exec 3<>pipe 4>pipe 3>&-
millrace docs >&4
echo "exit code $?"
millrace run p.json --threads 1 --state-out s >&4
echo "exit code $?"
[ -s s ] && echo "state saved"
