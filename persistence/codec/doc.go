// Package codec encodes and decodes what is stored: the fields that all records share, and the
// records that one change of the log stores together, which are events, signals, replies and
// outcomes of jobs. Each kind of record has one pair of functions, AppendX and DecodeX;
// nothing else knows the bytes. It does no input or output.
//
// A stored value is a version, then fields without names. A process reads its own version and
// the previous one. The strings that decoding returns share no memory with their input, and
// no input makes decoding panic.
package codec
