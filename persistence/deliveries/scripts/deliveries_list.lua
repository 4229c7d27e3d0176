-- Reads the beginnings of records of deliveries.
-- KEYS[1] records     ARGV[1] how many bytes of each
-- KEYS[2] webhooks    ARGV[2..] fields of the records, then the webhook
-- Returns the beginnings in the order of the fields, "" for one that is not there;
-- nothing if the webhook is not there.
local last = #ARGV
local fronts = {}
if redis.call('HEXISTS', KEYS[2], ARGV[last]) == 0 then
  return fronts
end
for i = 2, last - 1 do
  local record = redis.call('HGET', KEYS[1], ARGV[i])
  fronts[i - 1] = record and string.sub(record, 1, tonumber(ARGV[1])) or ''
end
return fronts
