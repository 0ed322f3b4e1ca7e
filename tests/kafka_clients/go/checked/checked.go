// Package checked ends a program at the first thing that is not as it should be.
package checked

import (
	"fmt"
	"os"
)

// Check ends the program unless err is nil; what names the step.
func Check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %s: %v\n", what, err)
		os.Exit(1)
	}
}

// Expect ends the program unless both print alike; what names the step.
func Expect(found, wanted any, what string) {
	if found, wanted := fmt.Sprint(found), fmt.Sprint(wanted); found != wanted {
		Check(fmt.Errorf("%.150s (%d bytes) instead of %.150s (%d bytes)", found, len(found), wanted, len(wanted)), what)
	}
}
