-- Executes a batch whose operations have no guards and only append events and new signals, with the
-- same effects as append.lua but without the tables and functions that append.lua makes on each call.
-- once.lua is prepended to this file.
--
-- KEYS[1] batch key of the writer     KEYS[3] signal log
-- KEYS[2] event log                   KEYS[4] open signals
-- ARGV[1] number of the batch
-- ARGV[2] program: a byte for each step, the first one 1
--   1 appends an event: header, payload
--   2 appends to the signal log under the id of the last event: header, metadata
--   3 stores an open signal with that id twice in front: field, value
-- ARGV[3..] two values for each step
--
-- Returns "FIRST -" as append.lua does.
local events, program = keys[2], args[2]
local id = call('XADD', events, '*', 'h', args[3], 'd', args[4])
local result = id .. ' -'
local nextid = match(id, '^%d+') .. '-*'
local a = 5
for i = 2, #program do
  local code = byte(program, i)
  if code == 1 then
    id = call('XADD', events, nextid, 'h', args[a], 'd', args[a + 1])
  elseif code == 2 then
    call('XADD', keys[3], id, 'h', args[a], 'm', args[a + 1])
  else
    call('HSET', keys[4], args[a], id .. ' ' .. id .. ' ' .. args[a + 1])
  end
  a = a + 2
end
call('SET', keys[1], args[1] .. ' ' .. result, 'EX', 600)
return result
