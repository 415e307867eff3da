package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// twoProcessors returns the first two processors that this process may use; false if it has one.
func twoProcessors() (first, second int, ok bool) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0, 0, false
	}
	var list []int
	for cpu := 0; len(list) < 2 && cpu < 8*len(set)*8; cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	if len(list) < 2 {
		return 0, 0, false
	}
	return list[0], list[1], true
}

// stayOn pins this process, and its children, to one processor.
func stayOn(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return eachThread(func(id int) error { return unix.SchedSetaffinity(id, &set) })
}

// yield gives this process the lowest priority.
func yield() error {
	return eachThread(func(id int) error { return unix.Setpriority(unix.PRIO_PROCESS, id, 19) })
}

// eachThread calls do for the existing threads; new ones inherit the setting.
func eachThread(do func(id int) error) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			err = do(id)
		}
		if err != nil && err != unix.ESRCH {
			return err
		}
	}
	return nil
}
