. "$HERE/common.inc"
echo 'not a library' >plugin.so
says millrace ops --plugin ./nothing.so
says millrace ops --plugin ./plugin.so
