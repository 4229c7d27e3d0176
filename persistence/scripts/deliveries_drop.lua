-- Drops deliveries of a webhook with all that belongs to them, for the owner of its
-- partition.
-- KEYS[1] epoch              KEYS[4] references of bodies   KEYS[7] all deliveries
-- KEYS[2] counts             KEYS[5] pending                KEYS[8] succeeded
-- KEYS[3] bodies             KEYS[6] records                KEYS[9] failed
-- ARGV[1] epoch of the owner
-- ARGV[2] "all", or "" for those that have ended, or 6 bytes: that ended until then
-- ARGV[3..] members
-- Returns how many it has dropped, -1 if another epoch holds the partition.
local call, cut = redis.call, string.sub
if call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
local limit = ARGV[2]
local members, fields, pending = {}, {}, 0
for i = 3, #ARGV do
  local member = ARGV[i]
  local id = cut(member, 1, 16)
  local record = call('HGET', KEYS[6], id)
  local drop = true
  if limit ~= 'all' and record then
    drop = string.byte(record, 40) % 4 ~= 0 and (limit == '' or cut(record, 28, 33) <= limit)
  end
  if drop then
    members[#members + 1] = member
    fields[#fields + 1] = id
    if limit == 'all' then
      pending = pending + call('ZREM', KEYS[5], member)
    end
    if record then
      local body = cut(record, 2, 21)
      local others = call('HGET', KEYS[4], body)
      if not others then
        call('HDEL', KEYS[3], body)
      elseif others == '1' then
        call('HDEL', KEYS[4], body)
      else
        call('HINCRBY', KEYS[4], body, -1)
      end
    end
  end
end
if #members > 0 then
  call('HDEL', KEYS[6], unpack(fields))
  for k = 7, 9 do
    call('ZREM', KEYS[k], unpack(members))
  end
end
if pending > 0 then
  call('HINCRBY', KEYS[2], 'pending', -pending)
end
return #members
