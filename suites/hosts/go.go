// Go, by cgo.
package main

/*
#include "host.h"
*/
import "C"
import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

type node struct{ value int }

//go:noinline
func read(n *node) int { return n.value }

func recovered() (yes int) {
	defer func() {
		if recover() != nil {
			yes = 1
		}
	}()
	return read(nil)
}

func main() {
	runtime.LockOSThread()
	debug.SetTraceback("crash")
	C.host_install()
	switch os.Args[1] {
	case "recover":
		came := 0
		for i := 0; i < 10000; i++ {
			came += recovered()
		}
		fmt.Println("recovered", came)
	case "stall":
		C.host_stall()
	case "crash":
		C.host_crash()
	case "own":
		fmt.Println(read(nil))
	case "panic":
		panic("the basket is empty")
	}
	C.host_uninstall()
}
