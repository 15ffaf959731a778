# usage: sh cmake/make_header.sh COMPILER...   runs the compiler, without the old precompiled header where it makes a new one: ccache
#                                              would count it to what the new one is made of, and all that include it to be new
case " $* " in
  *" -x c++-header "*) for word; do [ "$before" != -o ] || rm -f "$word"; before=$word; done ;;
esac
exec "$@"
