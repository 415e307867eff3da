package seed

// This file exports internals to the tests.

const Unreachable = unreachable

func (s *Seeder) Split(origin string) { s.separate(origin) }
