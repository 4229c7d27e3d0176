-- Withdraws a process of a node, unless another process has announced the node since. Its entry
-- stays until it expires, since the process may still have requests under way.
-- KEYS[1] live nodes   ARGV[1] node
-- KEYS[2] processes    ARGV[2] nonce of the process
-- Returns 1, or 0 if it was not withdrawn.
local nonce = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^%d+ (%S+)')
if nonce and nonce ~= ARGV[2] then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1] .. ' alone', ARGV[1] .. ' many', ARGV[1] .. ' assigned')
